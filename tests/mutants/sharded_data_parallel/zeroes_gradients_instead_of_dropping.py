"""Sets the whole gradients to zero instead of None: right sums, and their memory stays.

law: sharded_data_parallel.zero2.gradients_are_dropped_during_backward
says: gradient
"""
        # region solution sharder_launch
        # The one before has had a bucket's time to arrive. Waiting for it keeps two flat buckets in memory at most, instead of all.
        if self.num_launched:
            self.buckets[self.num_launched - 1].finish_reduction()
        bucket = self.buckets[self.num_launched]
        bucket.start_reduction()
        for parameter in bucket.parameters:
            if parameter.grad is not None:
                parameter.grad = torch.zeros_like(parameter.grad)
        self.num_launched += 1
        # endregion
