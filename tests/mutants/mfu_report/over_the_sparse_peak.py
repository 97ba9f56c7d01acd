"""Divides by the headline with sparsity.

law: mfu_report.utilisation.mfu_is_over_all_dense_peaks
says: sparse
"""
# region solution peak_flops_per_s
    if run.precision not in hardware.peak_flops_per_s:
        raise ValueError(f"{hardware.name} has no peak for {run.precision}, only for {', '.join(hardware.peak_flops_per_s)}")
    return hardware.sparse_bf16_headline_flops_per_s or hardware.peak_flops_per_s[run.precision]
# endregion
