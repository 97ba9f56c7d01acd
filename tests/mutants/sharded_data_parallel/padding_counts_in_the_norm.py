"""Pads with copies of the last element, and takes the norm of the whole flat shard with its padding.

law: sharded_data_parallel.clip.steps_are_clipped
says: clip
"""
        # region solution start_reduction
        # Zeros: for parameters without a gradient, which keep their place, and for the padding.
        self.flat = self.parameters[0].new_zeros(self.world_size * self.width)
        for parameter, piece in zip(self.parameters, self.pieces(self.flat), strict=True):
            if parameter.grad is not None:
                piece.view(parameter.shape).copy_(parameter.grad)
        self.flat[sum(self.sizes) :] = self.flat[sum(self.sizes) - 1]
        self.received = self.flat.new_empty(self.width)
        self.work = dist.reduce_scatter_tensor(self.received, self.flat, group=self.group, async_op=True)
        # endregion
        # region solution sharded_clip
        self.reduce_gradients()
        return clip_grad_norm_([bucket.gradient for bucket in self.buckets], max_norm, self.group)
        # endregion
