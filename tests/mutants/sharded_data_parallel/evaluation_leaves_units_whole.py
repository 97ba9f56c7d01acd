"""Frees nothing that an evaluation has gathered until the next forward: the root stays, and all units without resharding.

law: sharded_data_parallel.fsdp.shards_the_weights
says: hold
"""
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
