"""Copies the whole gradients to the flat tensor and sets them to zero instead of dropping them.

law: sharded_data_parallel.fsdp.one_unit_at_a_time
says: unit
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
        if gradients:
            torch._foreach_copy_(targets, gradients)  # one kernel that copies and casts, instead of one for each parameter
        for gradient in gradients:
            gradient.zero_()
        received = flat.new_empty(self.width)
        work = dist.reduce_scatter_tensor(received, flat, group=self.group, async_op=True)
        self.reduction = (work, received, flat)
        self.num_ready = 0
        # endregion
