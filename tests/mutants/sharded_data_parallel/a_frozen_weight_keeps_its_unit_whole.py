"""Counts frozen weights too before it reduces and frees, so that a unit with one stays whole to the end of backward.

law: sharded_data_parallel.fsdp.one_unit_at_a_time
says: unit
"""
        # region solution fsdp_gradient_is_ready
        unit = self.units[number]
        assert unit is not None
        unit.num_ready += 1
        if unit.num_ready == len(unit.wholes):
            self._reduce(unit)
            # Frozen weights may still be needed for the gradient of the unit's inputs.
            if unit.num_trained == len(unit.wholes):
                unit.free()
        # endregion
