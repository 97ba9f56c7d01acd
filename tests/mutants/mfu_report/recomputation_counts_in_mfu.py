"""MFU of the FLOPs that were done.

law: mfu_report.utilisation.recomputation_counts_in_hfu_only
says: recomputation
"""
# region solution mfu
    needed = flops_per_token(run.config, run.sequence, causal=causal, recompute=run.recompute)
    return tokens_per_s(run) * needed / (run.world_size * peak_flops_per_s(run, hardware))
# endregion
