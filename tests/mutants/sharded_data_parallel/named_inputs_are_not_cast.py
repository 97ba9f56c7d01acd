"""Casts positional inputs and forgets the named ones.

law: sharded_data_parallel.fsdp.masters_keep_their_precision
says: dtype
"""
        # region solution fsdp_forward
        if self.compute_dtype is not None:
            inputs = tree_map(self._cast, inputs)
        if not self.in_backward:
            # Whatever a forward without a backward has left gathered may be older than the last step.
            self._free_all()
        self._before_forward(0)
        outputs = self.module(*inputs, **named)
        self._after_forward(0, outputs)
        return outputs
        # endregion
