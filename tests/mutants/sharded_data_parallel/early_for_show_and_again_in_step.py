"""Reduces during backward for show, keeps the whole gradients, and lets step() reduce them again.

law: sharded_data_parallel.zero2.each_gradient_is_reduced_once
says: reduce
"""
        # region solution sharder_launch
        # The one before has had a bucket's time to arrive. Waiting for it keeps two flat buckets in memory at most, instead of all.
        if self.num_launched:
            self.buckets[self.num_launched - 1].finish_reduction()
        bucket = self.buckets[self.num_launched]
        bucket.start_reduction()
        self.num_launched += 1
        # endregion
        # region solution sharder_finish
        while self.num_launched < len(self.buckets):
            self._launch()
        if self.buckets:
            self.buckets[-1].finish_reduction()
        for bucket in self.buckets:
            bucket.gradient = None
        self.num_ready, self.num_launched = [0] * len(self.buckets), 0
        # endregion
