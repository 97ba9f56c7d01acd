"""Reduces to a sum and never divides; Adam hardly notices, SGD does.

law: sharded_data_parallel.zero1.step_equals_one_process
says: parameter
"""
        # region solution finish_reduction
        assert self.work is not None and self.received is not None
        self.work.wait()
        mean = self.received
        self.gradient = mean if self.gradient is None else self.gradient.add_(mean)
        self.work, self.flat, self.received = None, None, None
        # endregion
