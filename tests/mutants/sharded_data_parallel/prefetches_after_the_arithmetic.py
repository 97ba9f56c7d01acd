"""Starts the next unit's gather when this one has computed, too late to hide anything.

law: sharded_data_parallel.fsdp.prefetch_hides_the_gathers
says: prefetch
"""
        # region solution before_forward
        # A checkpoint runs forward once more inside of backward, where the way leads down.
        self._fetch(number, range(0))
        # endregion
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
        if unit is not None and number > 0 and self.reshard_after_forward:
            unit.free()
            self._fetch(0, range(number + 1, number + 1 + self.prefetch))
        # endregion
