"""Divides and adds what has been received without waiting for it.

law: sharded_data_parallel.zero2.waits_before_it_returns
says: land
"""
        # region solution finish_reduction
        assert self.work is not None and self.received is not None
        
        mean = self.received.div_(self.world_size)
        self.gradient = mean if self.gradient is None else self.gradient.add_(mean)
        self.work, self.flat, self.received = None, None, None
        # endregion
