"""Gathers everything again as soon as backward has ended, to be ready for the next forward.

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
        self._free_all()
        self.in_backward = False
        for unit in self.units:
            if unit is not None:
                unit.finish_gathering()
        # endregion
