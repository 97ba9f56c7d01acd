"""Waits for nothing before finish(): the flat tensors of all buckets are in memory at once.

law: sharded_data_parallel.zero2.gradients_are_dropped_during_backward
says: gradient
"""
        # region solution sharder_launch
        # The one before has had a bucket's time to arrive. Waiting for it keeps two flat buckets in memory at most, instead of all.
        bucket = self.buckets[self.num_launched]
        bucket.start_reduction()
        for parameter in bucket.parameters:
            parameter.grad = None
        self.num_launched += 1
        # endregion
        # region solution sharder_finish
        while self.num_launched < len(self.buckets):
            self._launch()
        for bucket in self.buckets:
            bucket.finish_reduction()
        self.num_ready, self.num_launched = [0] * len(self.buckets), 0
        # endregion
