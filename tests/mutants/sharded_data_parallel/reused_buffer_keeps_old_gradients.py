"""Keeps the flat buffer from step to step without clearing it: where a gradient is missing, the last step's travels again.

law: sharded_data_parallel.zero1.missing_gradients_count_as_zeros
says: not used
"""
        # region solution start_reduction
        # Zeros: for parameters without a gradient, which keep their place, and for the padding.
        if getattr(self, "buffer", None) is None:
            self.buffer = self.parameters[0].new_zeros(self.world_size * self.width)
        self.flat = self.buffer
        for parameter, piece in zip(self.parameters, self.pieces(self.flat), strict=True):
            if parameter.grad is not None:
                piece.view(parameter.shape).copy_(parameter.grad)
        self.received = self.flat.new_empty(self.width)
        self.work = dist.reduce_scatter_tensor(self.received, self.flat, group=self.group, async_op=True)
        # endregion
