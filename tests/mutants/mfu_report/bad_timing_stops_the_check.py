"""Says nothing about runs after one that is badly timed.

law: mfu_report.report.timing_bound
says: timing
"""
# region solution check_log
    found = []
    for run in log.runs:
        found += check_run(run, log)
        if not is_timed(run):
            break
    return found
# endregion
