"""Units travel by the list calls, with a tensor for every rank, and gradients are copied one after the other."""
        # region solution unit_gather
        if self.is_gathered:
            return
        self.is_gathered = True
        self.flat_whole.untyped_storage().resize_(self.whole_bytes)
        mine = self.flat_shard.to(self.compute_dtype)
        parts = list(self.flat_whole.data.chunk(self.world_size))
        self.gathering = (dist.all_gather(parts, mine, group=self.group, async_op=True), mine)
        # endregion
        # region solution unit_reduce
        flat = torch.zeros(self.world_size * self.width, dtype=self.reduce_dtype, device=self.flat_shard.device)
        for whole, piece in zip(self.wholes, self.pieces(flat), strict=True):
            if whole.grad is not None:
                piece.copy_(whole.grad.reshape(-1))
                whole.grad = None
        received = flat.new_empty(self.width)
        work = dist.reduce_scatter(received, list(flat.chunk(self.world_size)), group=self.group, async_op=True)
        self.reduction = (work, received, flat)
        self.num_ready = 0
        # endregion
