"""Launches whichever bucket is complete; where ranks use different parameters their collectives do not match.

law: sharded_data_parallel.zero2.step_equals_one_process
says: rank
"""
        # region solution sharder_init
        self.buckets = optimizer.buckets
        self.num_ready = [0] * len(self.buckets)
        self.num_launched = 0
        self.launched: list[int] = []
        for index, bucket in enumerate(self.buckets):
            for parameter in bucket.parameters:
                parameter.register_post_accumulate_grad_hook(lambda _, index=index: self._gradient_is_ready(index))
        # endregion
        # region solution sharder_gradient_is_ready
        self.num_ready[index] += 1
        if self.num_ready[index] == len(self.buckets[index].parameters):
            self.launched.append(index)
            self._launch()
        # endregion
        # region solution sharder_launch
        if len(self.launched) > 1:
            self.buckets[self.launched[-2]].finish_reduction()
        bucket = self.buckets[self.launched[-1]]
        bucket.start_reduction()
        for parameter in bucket.parameters:
            parameter.grad = None
        # endregion
        # region solution sharder_finish
        for index in range(len(self.buckets)):
            if index not in self.launched:
                self.launched.append(index)
                self._launch()
        if self.launched:
            self.buckets[self.launched[-1]].finish_reduction()
        self.num_ready, self.launched = [0] * len(self.buckets), []
        # endregion
