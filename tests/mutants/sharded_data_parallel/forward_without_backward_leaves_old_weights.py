"""Does not free what an evaluation has left gathered, and trains on with weights that are a step old.

law: sharded_data_parallel.fsdp.trains_like_one_process
says: step
"""
        # region solution fsdp_forward
        if self.compute_dtype is not None:
            inputs, named = tree_map(self._cast, (inputs, named))
        if not self.in_backward:
            # Whatever a forward without a backward has left gathered may be older than the last step.
            pass
        self._before_forward(0)
        outputs = self.module(*inputs, **named)
        self._after_forward(0, outputs)
        return outputs
        # endregion
        # region solution after_forward
        differentiable = [each for each in tree_leaves(outputs) if isinstance(each, Tensor) and each.requires_grad]
        for output in differentiable:
            output.register_hook(lambda _: self._before_backward(number))
        if self.in_backward:
            return
        # The root stays: backward begins with it. But where there will be no backward, nobody else frees what is left.
        unit = self.units[number]
        if unit is not None and number > 0 and self.reshard_after_forward:
            unit.free()
        # endregion
