"""Takes the step in the middle of the sorted list: of an even number of steps the slower middle one.

law: mfu_report.utilisation.takes_the_median_step
says: median
"""
    # region solution tokens_per_s
    tokens_per_step = run.micro_batch * run.num_micro_batches * run.sequence * run.world_size
    return tokens_per_step / sorted(run.step_s)[len(run.step_s) // 2]
    # endregion
