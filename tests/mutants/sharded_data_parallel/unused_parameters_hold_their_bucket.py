"""Launches complete buckets only; the others are reduced in step.

law: sharded_data_parallel.zero2.step_equals_one_process
says: weight
"""
# region solution sharder_finish
    if self.num_launched:
        self.buckets[self.num_launched - 1].finish_reduction()
    self.num_ready, self.num_launched = [0] * len(self.buckets), 0
# endregion
