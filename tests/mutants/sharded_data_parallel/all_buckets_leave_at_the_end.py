"""Launches every bucket in finish().

law: sharded_data_parallel.zero2.buckets_leave_while_backward_runs
says: backward
"""
# region solution sharder_gradient_is_ready
    pass
# endregion
