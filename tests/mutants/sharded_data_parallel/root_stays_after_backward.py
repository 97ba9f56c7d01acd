"""Frees the units after backward, but never the root.

law: sharded_data_parallel.fsdp.shards_the_weights
says: hold
"""
        # region solution after_backward
        for unit in reversed(self.units):
            if unit is not None and unit.num_ready:
                self._reduce(unit)
        for unit in self.units:
            if unit is not None:
                unit.finish_reduction()
        for unit in self.units[1:]:
            if unit is not None:
                unit.free()
        self.in_backward = False
        # endregion
