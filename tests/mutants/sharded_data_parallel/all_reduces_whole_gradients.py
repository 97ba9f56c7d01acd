"""All-reduces the flat gradients and takes its own range.

law: sharded_data_parallel.fsdp.travels_three_times
says: reduce
"""
        # region solution unit_reduce
        flat = torch.empty(self.world_size * self.width, dtype=self.reduce_dtype, device=self.flat_shard.device)
        flat[sum(self.sizes) :].zero_()
        gradients, targets = [], []
        for whole, piece in zip(self.wholes, self.pieces(flat), strict=True):
            if whole.grad is None:  # frozen or unused
                piece.zero_()
            else:
                gradients.append(whole.grad)
                targets.append(piece.view(whole.shape))
            whole.grad = None
        if gradients:
            torch._foreach_copy_(targets, gradients)  # one kernel that copies and casts, instead of one for each parameter
        received = flat.new_empty(self.width)
        rank = dist.get_rank(self.group)
        received = flat[rank * self.width : (rank + 1) * self.width]
        work = dist.all_reduce(flat, group=self.group, async_op=True)
        self.reduction = (work, received, flat)
        self.num_ready = 0
        # endregion
