"""Never drops the whole gradients.

law: sharded_data_parallel.fsdp.shards_the_weights
says: memory
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
        self.__dict__.setdefault('old', {})[id(whole)] = whole.grad
        whole.grad = None
    if gradients:
        torch._foreach_copy_(targets, gradients)  # one kernel that copies and casts, instead of one for each parameter
    received = flat.new_empty(self.width)
    work = dist.reduce_scatter_tensor(received, flat, group=self.group, async_op=True)
    self.reduction = (work, received, flat)
    self.num_ready = 0
# endregion
