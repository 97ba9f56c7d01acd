"""finish() returns while the last bucket is on its way, and step() takes its shard unwaited.

law: sharded_data_parallel.zero2.waits_before_it_returns
says: land
"""
        # region solution sharder_finish
        while self.num_launched < len(self.buckets):
            self._launch()
        if self.buckets:
            last = self.buckets[-1]
            mean = last.received / last.world_size
            last.gradient = mean if last.gradient is None else last.gradient + mean
        self.num_ready, self.num_launched = [0] * len(self.buckets), 0
        # endregion
