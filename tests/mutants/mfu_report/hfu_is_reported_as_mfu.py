"""Counts recomputed FLOPs in MFU too, so it rises as the model learns more slowly.

law: mfu_report.utilisation.recomputation_counts_in_hfu_only
says: recompu
"""
    # region solution mfu
    needed = flops_per_token(run.config, run.sequence, causal=causal, recompute=run.recompute)
    return tokens_per_s(run) * needed / (run.world_size * peak_flops_per_s(run, hardware))
    # endregion
