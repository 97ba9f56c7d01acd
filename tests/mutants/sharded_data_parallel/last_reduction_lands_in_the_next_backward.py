"""backward() returns while the last reduction is on its way; its shards come with the next backward.

law: sharded_data_parallel.fsdp.gradients_equal_the_whole_batch
says: gradient
"""
        # region solution after_backward
        for unit in reversed(self.units):
            if unit is not None and unit.num_ready:
                self._reduce(unit)
        self._free_all()
        self.in_backward = False
        # endregion
