"""Compares with whatever it is given.

law: mfu_report.scaling.refuses_other_work
says: ValueError
"""
# region solution scaling_efficiency
    return tokens_per_s(run) / run.world_size / tokens_per_s(alone)
# endregion
