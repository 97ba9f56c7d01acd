"""finish() leaves incomplete buckets where they are; step() reduces them after all.

law: sharded_data_parallel.zero2.each_gradient_is_reduced_once
says: reduce
"""
        # region solution sharder_finish
        if self.num_launched:
            self.buckets[self.num_launched - 1].finish_reduction()
        self.num_ready, self.num_launched = [0] * len(self.buckets), 0
        # endregion
