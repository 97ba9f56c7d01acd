"""Reduces a unit with the last of its gradients and never where one of its weights has not been used.

law: sharded_data_parallel.fsdp.gradients_equal_the_whole_batch
says: gradient
"""
        # region solution after_backward
        for unit in self.units:
            if unit is not None:
                unit.num_ready = 0
        for unit in self.units:
            if unit is not None:
                unit.finish_reduction()
        self._free_all()
        self.in_backward = False
        # endregion
