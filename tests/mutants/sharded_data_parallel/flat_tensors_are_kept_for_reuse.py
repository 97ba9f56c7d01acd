"""Keeps each bucket's flat tensor for the next backward, so that the whole gradients' memory is never given back.

law: sharded_data_parallel.zero2.gradients_are_dropped_during_backward
says: gradient
"""
        # region solution start_reduction
        # Zeros: for parameters without a gradient, which keep their place, and for the padding.
        if getattr(self, "buffer", None) is None:
            self.buffer = self.parameters[0].new_empty(self.world_size * self.width)
        self.flat = self.buffer.zero_()
        for parameter, piece in zip(self.parameters, self.pieces(self.flat), strict=True):
            if parameter.grad is not None:
                piece.view(parameter.shape).copy_(parameter.grad)
        self.received = self.flat.new_empty(self.width)
        self.work = dist.reduce_scatter_tensor(self.received, self.flat, group=self.group, async_op=True)
        # endregion
