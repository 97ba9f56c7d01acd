"""Leaves units whole in backward until all of it is over.

law: sharded_data_parallel.fsdp.one_unit_at_a_time
says: unit
"""
        # region solution fsdp_gradient_is_ready
        unit = self.units[number]
        assert unit is not None
        unit.num_ready += 1
        if unit.num_ready == unit.num_trained:
            self._reduce(unit)

        # endregion
