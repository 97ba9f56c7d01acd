"""Gathers one unit more ahead than prefetch allows.

law: sharded_data_parallel.fsdp.one_unit_at_a_time
says: unit
"""
        # region solution before_forward
        # A checkpoint runs forward once more inside of backward, where the way leads down.
        ahead = range(0) if self.in_backward else range(number + 1, number + 2 + self.prefetch)
        self._fetch(number, ahead)
        # endregion
        # region solution before_backward
        if not self.in_backward:
            self.in_backward = True
            torch.autograd.Variable._execution_engine.queue_callback(self._after_backward)
        begin = number or len(self.units)  # the root's own backward is followed by the last unit's
        self._fetch(number, range(begin - 1, begin - 2 - self.prefetch, -1))
        # endregion
