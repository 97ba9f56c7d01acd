"""finish() does not reset the counts, so that in the next backward buckets leave with their first gradient.

law: sharded_data_parallel.zero2.step_equals_one_process
says: parameter
"""
        # region solution sharder_finish
        while self.num_launched < len(self.buckets):
            self._launch()
        if self.buckets:
            self.buckets[-1].finish_reduction()
        self.num_launched = 0
        # endregion
