"""From nine ranks on it all-reduces and keeps its part, as if eight were all there ever are.

law: sharded_data_parallel.zero1.holds_at_scale
says: volume
"""
        # region solution start_reduction
        # Zeros: for parameters without a gradient, which keep their place, and for the padding.
        self.flat = self.parameters[0].new_zeros(self.world_size * self.width)
        for parameter, piece in zip(self.parameters, self.pieces(self.flat), strict=True):
            if parameter.grad is not None:
                piece.view(parameter.shape).copy_(parameter.grad)
        self.received = self.flat.new_empty(self.width)
        if self.world_size > 8:
            begins_at = dist.get_rank(self.group) * self.width
            dist.all_reduce(self.flat, group=self.group)
            self.received.copy_(self.flat[begins_at : begins_at + self.width])
            self.flat = self.flat[:0]
        else:
            self.work = dist.reduce_scatter_tensor(self.received, self.flat, group=self.group, async_op=True)
        # endregion
        # region solution finish_reduction
        assert self.received is not None
        if self.work is not None:
            self.work.wait()
        mean = self.received.div_(self.world_size)
        self.gradient = mean if self.gradient is None else self.gradient.add_(mean)
        self.work, self.flat, self.received = None, None, None
        # endregion
