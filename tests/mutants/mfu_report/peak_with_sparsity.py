"""Divides bf16 and fp16 runs by the headline figure with sparsity, where the table has one.

law: mfu_report.utilisation.mfu_is_over_all_dense_peaks
says: peak
"""
    # region solution peak_flops_per_s
    if run.precision not in hardware.peak_flops_per_s:
        raise ValueError(f"{hardware.name} has no peak for {run.precision}, only for {', '.join(hardware.peak_flops_per_s)}")
    if run.precision in ("bf16", "fp16") and hardware.sparse_bf16_headline_flops_per_s:
        return hardware.sparse_bf16_headline_flops_per_s
    return hardware.peak_flops_per_s[run.precision]
    # endregion
