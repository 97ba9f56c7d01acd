"""Launches its bucket again with each gradient that arrives; the zeros of the others change nothing but the volume.

law: sharded_data_parallel.zero2.each_gradient_is_reduced_once
says: reduce
"""
        # region solution sharder_gradient_is_ready
        bucket = self.buckets[index]
        bucket.start_reduction()
        bucket.finish_reduction()
        for parameter in bucket.parameters:
            parameter.grad = None
        # endregion
        # region solution sharder_finish
        self.num_ready, self.num_launched = [0] * len(self.buckets), 0
        # endregion
