"""A later micro-batch's mean replaces that of the earlier ones.

law: sharded_data_parallel.zero2.step_equals_one_process
says: parameter
"""
        # region solution finish_reduction
        assert self.work is not None and self.received is not None
        self.work.wait()
        mean = self.received.div_(self.world_size)
        self.gradient = mean
        self.work, self.flat, self.received = None, None, None
        # endregion
