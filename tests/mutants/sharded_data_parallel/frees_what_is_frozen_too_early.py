"""Frees a unit as soon as its trained weights have their gradients, also where the gradient of its inputs still needs frozen ones.

law: sharded_data_parallel.fsdp.shared_and_frozen_weights
says: frozen
"""
        # region solution fsdp_gradient_is_ready
        unit = self.units[number]
        assert unit is not None
        unit.num_ready += 1
        if unit.num_ready == unit.num_trained:
            self._reduce(unit)
            unit.free()
        # endregion
