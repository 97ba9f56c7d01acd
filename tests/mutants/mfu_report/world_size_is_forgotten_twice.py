"""Forgets the ranks in the tokens and in the peaks: MFU comes out right, tokens/s are those of one rank.

law: mfu_report.utilisation.counts_all_ranks_and_micro_batches
says: rank
"""
    # region solution tokens_per_s
    tokens_per_step = run.micro_batch * run.num_micro_batches * run.sequence
    return tokens_per_step / statistics.median(run.step_s)
    # endregion
    # region solution mfu
    needed = flops_per_token(run.config, run.sequence, causal=causal, recompute="none")
    return tokens_per_s(run) * needed / peak_flops_per_s(run, hardware)
    # endregion
    # region solution hfu
    done = flops_per_token(run.config, run.sequence, causal=causal, recompute=run.recompute)
    return tokens_per_s(run) * done / peak_flops_per_s(run, hardware)
    # endregion
