"""Skips a run that has no step times, as there is nothing to check in it.

law: mfu_report.report.timing_bound
says: timing
"""
    # region solution check_log
    return [violation for run in log.runs if run.step_s for violation in check_run(run, log)]
    # endregion
