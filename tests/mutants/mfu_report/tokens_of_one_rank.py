"""Tokens of one rank only.

law: mfu_report.utilisation.counts_all_ranks_and_micro_batches
says: world size
"""
# region solution tokens_per_s
    tokens_per_step = run.micro_batch * run.num_micro_batches * run.sequence
    return tokens_per_step / statistics.median(run.step_s)
# endregion
