"""Frees units only when backward has ended.

law: sharded_data_parallel.fsdp.one_unit_at_a_time
says: memory
"""
# region solution fsdp_gradient_is_ready
    unit = self.units[number]
    assert unit is not None
    unit.num_ready += 1
    if unit.num_ready == unit.num_trained:
        self._reduce(unit)
        if unit.num_trained == len(unit.wholes):
            pass
# endregion
