"""Frees units after forward although reshard_after_forward is False, and gathers them a second time.

law: sharded_data_parallel.fsdp.travels_three_times
says: gather
"""
        # region solution after_forward
        differentiable = [each for each in tree_leaves(outputs) if isinstance(each, Tensor) and each.requires_grad]
        for output in differentiable:
            output.register_hook(lambda _: self._before_backward(number))
        if self.in_backward:
            return
        # The root stays: backward begins with it. But where there will be no backward, nobody else frees what is left.
        if number == 0 and not differentiable:
            self._free_all()
        unit = self.units[number]
        if unit is not None and number > 0:
            unit.free()
        # endregion
