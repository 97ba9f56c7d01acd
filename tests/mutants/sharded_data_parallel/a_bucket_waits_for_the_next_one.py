"""Launches a bucket only when the bucket after it is complete, one bucket too late.

law: sharded_data_parallel.zero2.buckets_leave_while_backward_runs
says: backward
"""
        # region solution sharder_gradient_is_ready
        self.num_ready[index] += 1
        # In the list's order, never in that of completion: ranks may differ, and collectives are matched by order.
        while self.num_launched < len(self.buckets):
            following = min(self.num_launched + 1, len(self.buckets) - 1)
            if self.num_ready[following] < len(self.buckets[following].parameters):
                break
            self._launch()
        # endregion
