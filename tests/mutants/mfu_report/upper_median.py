"""Takes the middle of the sorted steps, the upper one of two.

law: mfu_report.utilisation.takes_the_median_step
says: median
"""
# region solution tokens_per_s
    tokens_per_step = run.micro_batch * run.num_micro_batches * run.sequence * run.world_size
    return tokens_per_step / sorted(run.step_s)[len(run.step_s) // 2]
# endregion
