"""Prefetches one unit more than it was told.

law: sharded_data_parallel.fsdp.one_unit_at_a_time
says: memory
"""
# region solution before_forward
    ahead = range(0) if self.in_backward else range(number + 1, number + 2 + self.prefetch)
    self._fetch(number, ahead)
# endregion
