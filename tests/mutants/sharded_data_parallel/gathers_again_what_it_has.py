"""Without resharding it gathers before backward all the same.

law: sharded_data_parallel.fsdp.travels_three_times
says: gather
"""
# region solution before_backward
    if not self.in_backward:
        self.in_backward = True
        torch.autograd.Variable._execution_engine.queue_callback(self._after_backward)
    unit = self.units[number]
    if unit is not None and number:
        unit.free()
    begin = number or len(self.units)  # the root's own backward is followed by the last unit's
    self._fetch(number, range(begin - 1, begin - 1 - self.prefetch, -1))
# endregion
