"""Buckets travel by the list calls, all_gather and reduce_scatter, with a tensor for every rank."""
        # region solution start_reduction
        gradients = [torch.zeros_like(p) if p.grad is None else p.grad.detach() for p in self.parameters]
        padding = gradients[0].new_zeros(self.world_size * self.width - sum(self.sizes))
        self.flat = torch.cat([*(gradient.reshape(-1) for gradient in gradients), padding])
        self.received = self.flat.new_empty(self.width)
        self.work = dist.reduce_scatter(self.received, list(self.flat.chunk(self.world_size)), group=self.group, async_op=True)
        # endregion
        # region solution start_gathering
        mine = self.parameters[0].new_zeros(self.width)
        begins_at = 0
        for shard in self.shards:
            mine[begins_at : begins_at + shard.numel()] = shard.detach()
            begins_at += shard.numel()
        self.flat = mine.new_empty(self.world_size * self.width)
        self.received = mine
        self.work = dist.all_gather(list(self.flat.chunk(self.world_size)), mine, group=self.group, async_op=True)
        # endregion
