"""Answers with the fp16 peak where there is none for bf16: on newer devices they are the same.

law: mfu_report.utilisation.refuses_a_missing_peak
says: bf16
"""
    # region solution peak_flops_per_s
    if run.precision == "bf16" and "bf16" not in hardware.peak_flops_per_s and "fp16" in hardware.peak_flops_per_s:
        return hardware.peak_flops_per_s["fp16"]
    if run.precision not in hardware.peak_flops_per_s:
        raise ValueError(f"{hardware.name} has no peak for {run.precision}, only for {', '.join(hardware.peak_flops_per_s)}")
    return hardware.peak_flops_per_s[run.precision]
    # endregion
