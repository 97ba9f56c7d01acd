"""With reshard_after_forward=False it keeps the whole weights after backward, and the next forward uses those from before the step.

law: sharded_data_parallel.fsdp.trains_like_one_process
says: step
"""
        # region solution fsdp_forward
        if self.compute_dtype is not None:
            inputs, named = tree_map(self._cast, (inputs, named))
        self._before_forward(0)
        outputs = self.module(*inputs, **named)
        self._after_forward(0, outputs)
        return outputs
        # endregion
        # region solution after_backward
        for unit in reversed(self.units):
            if unit is not None and unit.num_ready:
                self._reduce(unit)
        for unit in self.units:
            if unit is not None:
                unit.finish_reduction()
        if self.reshard_after_forward:
            self._free_all()
        self.in_backward = False
        # endregion
