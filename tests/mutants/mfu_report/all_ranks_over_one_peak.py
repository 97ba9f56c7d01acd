"""Divides the tokens of all ranks by the peak of one device.

law: mfu_report.utilisation.mfu_is_over_all_dense_peaks
says: peak
"""
    # region solution mfu
    needed = flops_per_token(run.config, run.sequence, causal=causal, recompute="none")
    return tokens_per_s(run) * needed / peak_flops_per_s(run, hardware)
    # endregion
    # region solution hfu
    done = flops_per_token(run.config, run.sequence, causal=causal, recompute=run.recompute)
    return tokens_per_s(run) * done / peak_flops_per_s(run, hardware)
    # endregion
