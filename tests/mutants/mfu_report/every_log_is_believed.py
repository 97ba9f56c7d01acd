"""Finds every log possible.

law: mfu_report.report.possible_logs_pass
says: possible
"""
    # region solution check_log
    return []
    # endregion
