"""All ranks' tokens over one device's peak.

law: mfu_report.utilisation.mfu_is_over_all_dense_peaks
says: world size
"""
# region solution mfu
    needed = flops_per_token(run.config, run.sequence, causal=causal, recompute="none")
    return tokens_per_s(run) * needed / peak_flops_per_s(run, hardware)
# endregion
