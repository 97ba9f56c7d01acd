"""Divides by the bf16 peak, whatever the run computed in, as estimate_mfu with its one constant does.

law: mfu_report.utilisation.mfu_is_over_all_dense_peaks
says: peak
"""
    # region solution peak_flops_per_s
    if run.precision not in hardware.peak_flops_per_s:
        raise ValueError(f"{hardware.name} has no peak for {run.precision}, only for {', '.join(hardware.peak_flops_per_s)}")
    return hardware.peak_flops_per_s.get("bf16", hardware.peak_flops_per_s[run.precision])
    # endregion
