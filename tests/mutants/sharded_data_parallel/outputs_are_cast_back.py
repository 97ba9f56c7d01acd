"""Casts outputs to float32, which nobody has asked for.

law: sharded_data_parallel.fsdp.masters_keep_their_precision
says: output
"""
        # region solution fsdp_forward
        if self.compute_dtype is not None:
            inputs, named = tree_map(self._cast, (inputs, named))
        if not self.in_backward:
            # Whatever a forward without a backward has left gathered may be older than the last step.
            self._free_all()
        self._before_forward(0)
        outputs = self.module(*inputs, **named)
        self._after_forward(0, outputs)
        return tree_map(lambda each: each.float() if isinstance(each, Tensor) and each.is_floating_point() else each, outputs)
        # endregion
