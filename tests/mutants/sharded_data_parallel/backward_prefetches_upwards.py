"""Fetches ahead in backward the units that come next in forward.

law: sharded_data_parallel.fsdp.prefetch_hides_the_gathers
says: prefetch
"""
        # region solution before_backward
        if not self.in_backward:
            self.in_backward = True
            torch.autograd.Variable._execution_engine.queue_callback(self._after_backward)
        self._fetch(number, range(number + 1, number + 1 + self.prefetch))
        # endregion
