"""Gathers all units again when backward begins.

law: sharded_data_parallel.fsdp.one_unit_at_a_time
says: unit
"""
        # region solution before_backward
        if not self.in_backward:
            self.in_backward = True
            torch.autograd.Variable._execution_engine.queue_callback(self._after_backward)
        begin = number or len(self.units)  # the root's own backward is followed by the last unit's
        self._fetch(number, range(begin - 1, 0, -1))
        # endregion
