"""Divides the gradients before they travel, gathers with blocking calls one bucket after the other, last bucket first."""
        # region solution start_reduction
        # Zeros: for parameters without a gradient, which keep their place, and for the padding.
        self.flat = self.parameters[0].new_zeros(self.world_size * self.width)
        for parameter, piece in zip(self.parameters, self.pieces(self.flat), strict=True):
            if parameter.grad is not None:
                piece.view(parameter.shape).copy_(parameter.grad)
        self.flat /= self.world_size
        self.received = self.flat.new_empty(self.width)
        self.work = dist.reduce_scatter_tensor(self.received, self.flat, group=self.group, async_op=True)
        # endregion
        # region solution finish_reduction
        assert self.work is not None and self.received is not None
        self.work.wait()
        mean = self.received
        self.gradient = mean if self.gradient is None else self.gradient.add_(mean)
        self.work, self.flat, self.received = None, None, None
        # endregion
        # region solution start_gathering
        mine = torch.cat([shard.detach() for shard in self.shards])
        mine = nn.functional.pad(mine, (0, self.width - mine.numel()))
        self.flat = mine.new_empty(self.world_size * self.width)
        dist.all_gather_into_tensor(self.flat, mine, group=self.group)
        # endregion
        # region solution finish_gathering
        assert self.flat is not None
        for parameter, piece in zip(self.parameters, self.pieces(self.flat), strict=True):
            parameter.detach().copy_(piece.view(parameter.shape))
        self.work, self.flat, self.received = None, None, None
        # endregion
        # region solution sharded_step
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        gradients = iter(self.reduce_gradients())
        for bucket in self.buckets:
            for shard in bucket.shards:
                shard.grad = next(gradients)
        for seen, local in zip(self.param_groups, self.local.param_groups, strict=True):
            for name in seen.keys() - {"params"}:
                local[name] = seen[name]
        self.local.step()
        self.local.zero_grad(set_to_none=True)
        for bucket in reversed(self.buckets):
            bucket.gradient = None
            bucket.start_gathering()
            bucket.finish_gathering()
        return loss
        # endregion
