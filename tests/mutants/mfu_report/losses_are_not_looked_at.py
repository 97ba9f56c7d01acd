"""An infinite loss passes.

law: mfu_report.report.timing_bound
says: loss
"""
# region solution is_timed
    has_times = bool(run.step_s) and all(math.isfinite(step_s) and step_s > 0 for step_s in run.step_s)
    return has_times
# endregion
