"""The hooks count and do nothing more: all buckets leave in finish(), when backward is over.

law: sharded_data_parallel.zero2.buckets_leave_while_backward_runs
says: backward
"""
        # region solution sharder_gradient_is_ready
        self.num_ready[index] += 1
        # endregion
