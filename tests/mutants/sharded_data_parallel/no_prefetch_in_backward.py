"""Prefetches in forward and gathers on demand in backward.

law: sharded_data_parallel.fsdp.prefetch_hides_the_gathers
says: prefetch
"""
        # region solution before_backward
        if not self.in_backward:
            self.in_backward = True
            torch.autograd.Variable._execution_engine.queue_callback(self._after_backward)
        begin = number or len(self.units)  # the root's own backward is followed by the last unit's
        self._fetch(number, range(0))
        # endregion
