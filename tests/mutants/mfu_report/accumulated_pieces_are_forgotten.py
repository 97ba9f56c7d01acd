"""Takes micro_batch for a rank's whole batch: accumulated pieces are forgotten.

law: mfu_report.utilisation.counts_all_ranks_and_micro_batches
says: micro
"""
    # region solution tokens_per_s
    tokens_per_step = run.micro_batch * run.sequence * run.world_size
    return tokens_per_step / statistics.median(run.step_s)
    # endregion
