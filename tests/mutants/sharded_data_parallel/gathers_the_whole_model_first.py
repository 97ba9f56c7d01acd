"""Gathers all units before forward begins and frees them one by one.

law: sharded_data_parallel.fsdp.one_unit_at_a_time
says: unit
"""
        # region solution fsdp_forward
        if self.compute_dtype is not None:
            inputs, named = tree_map(self._cast, (inputs, named))
        if not self.in_backward:
            # Whatever a forward without a backward has left gathered may be older than the last step.
            self._free_all()
        for unit in self.units:
            if unit is not None:
                unit.start_gathering()
        self._before_forward(0)
        outputs = self.module(*inputs, **named)
        self._after_forward(0, outputs)
        return outputs
        # endregion
