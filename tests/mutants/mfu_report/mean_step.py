"""Takes the mean of the steps.

law: mfu_report.utilisation.takes_the_median_step
says: mean
"""
# region solution tokens_per_s
    tokens_per_step = run.micro_batch * run.num_micro_batches * run.sequence * run.world_size
    return tokens_per_step / statistics.fmean(run.step_s)
# endregion
