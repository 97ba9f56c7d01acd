"""Sums a small map of who has which gradient before the gradients, so that what nobody used keeps None; that takes a round trip of its own.

law: data_parallel.flat.takes_the_rounds_of_one_all_reduce
says: seconds
"""
# region solution flat_all_reduce_gradients
    trainable = [parameter for parameter in parameters if parameter.requires_grad]
    users = torch.tensor([parameter.grad is not None for parameter in trainable], dtype=torch.int32)
    if trainable:
        users = users.to(trainable[0].device)
        dist.all_reduce(users, group=group)
    by_dtype: dict[torch.dtype, list[nn.Parameter]] = {}
    for parameter, num_users in zip(trainable, users.tolist(), strict=True):
        if num_users:
            by_dtype.setdefault(parameter.dtype, []).append(parameter)
    for members in by_dtype.values():
        gradients = [torch.zeros_like(p) if p.grad is None else p.grad.detach() for p in members]
        flat = torch.cat([gradient.reshape(-1) for gradient in gradients])
        dist.all_reduce(flat, group=group)
        flat /= dist.get_world_size(group)
        for parameter, piece in zip(members, flat.split([p.numel() for p in members]), strict=True):
            parameter.grad = piece.view(parameter.shape)
# endregion
