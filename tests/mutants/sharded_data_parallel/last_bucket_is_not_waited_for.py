"""finish() waits for all buckets but the last.

law: sharded_data_parallel.zero2.waits_before_it_returns
says: wait
"""
# region solution sharder_finish
    while self.num_launched < len(self.buckets):
        self._launch()
    if self.buckets:
        work = self.buckets[-1].work
        self.buckets[-1].work = type('Done', (), {'wait': lambda self: None})()
        self.buckets[-1].finish_reduction()
    self.num_ready, self.num_launched = [0] * len(self.buckets), 0
# endregion
