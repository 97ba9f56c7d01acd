"""Checks the median instead of each step, so one that is negative or infinite goes unseen.

law: mfu_report.report.timing_bound
says: timing
"""
    # region solution is_timed
    has_times = bool(run.step_s) and 0 < statistics.median(run.step_s) < math.inf
    return has_times and all(math.isfinite(loss) for loss in run.losses)
    # endregion
