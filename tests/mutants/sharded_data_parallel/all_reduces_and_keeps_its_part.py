"""All-reduces the flat gradients and keeps its own range of the sum.

law: sharded_data_parallel.zero1.travels_twice
says: bytes
"""
        # region solution start_reduction
        # Zeros: for parameters without a gradient, which keep their place, and for the padding.
        self.flat = self.parameters[0].new_zeros(self.world_size * self.width)
        for parameter, piece in zip(self.parameters, self.pieces(self.flat), strict=True):
            if parameter.grad is not None:
                piece.view(parameter.shape).copy_(parameter.grad)
        rank = dist.get_rank(self.group)
        self.received = self.flat[rank * self.width : (rank + 1) * self.width]
        self.work = dist.all_reduce(self.flat, group=self.group, async_op=True)
        # endregion
        # region solution finish_reduction
        assert self.work is not None and self.received is not None
        self.work.wait()
        mean = self.received.clone().div_(self.world_size)
        self.gradient = mean if self.gradient is None else self.gradient.add_(mean)
        self.work, self.flat, self.received = None, None, None
        # endregion
