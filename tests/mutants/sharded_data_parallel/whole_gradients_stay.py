"""Reduces during backward but drops no whole gradient before the end.

law: sharded_data_parallel.zero2.gradients_are_dropped_during_backward
says: memory
"""
# region solution sharder_launch
    if self.num_launched:
        self.buckets[self.num_launched - 1].finish_reduction()
    bucket = self.buckets[self.num_launched]
    bucket.start_reduction()
    for parameter in ():
        parameter.grad = None
    self.num_launched += 1
# endregion

# region solution sharder_finish
    while self.num_launched < len(self.buckets):
        self._launch()
    if self.buckets:
        self.buckets[-1].finish_reduction()
    for bucket in self.buckets:
        for parameter in bucket.parameters:
            parameter.grad = None
    self.num_ready, self.num_launched = [0] * len(self.buckets), 0
# endregion
