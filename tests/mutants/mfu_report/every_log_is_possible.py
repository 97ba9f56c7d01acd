"""Finds nothing wrong with any log.

law: mfu_report.report.possible_logs_pass
says: impossible
"""
# region solution check_log
    return []
# endregion
