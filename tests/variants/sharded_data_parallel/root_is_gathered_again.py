"""Frees the root after forward and gathers it again for backward; prefetches before it waits."""
        # region solution fsdp_fetch
        wanted = [number, *(other for other in ahead if 1 <= other < len(self.units))]
        for each in wanted:
            if self.units[each] is not None:
                self.units[each].start_gathering()
        if self.units[number] is not None:
            self.units[number].finish_gathering()
        # endregion
        # region solution after_forward
        differentiable = [each for each in tree_leaves(outputs) if isinstance(each, Tensor) and each.requires_grad]
        for output in differentiable:
            output.register_hook(lambda _: self._before_backward(number))
        if self.in_backward:
            return
        if number == 0 and not differentiable:
            self._free_all()
        if self.units[number] is not None and self.reshard_after_forward:
            self.units[number].free()
        # endregion
