"""Joins gradients of all dtypes in one tensor: cat promotes them to the widest, and casting back hides it.

law: data_parallel.flat.dtypes_do_not_mix
says: dtype
"""
# region solution flat_all_reduce_gradients
    members = [parameter for parameter in parameters if parameter.requires_grad]
    if not members:
        return
    gradients = [torch.zeros_like(p) if p.grad is None else p.grad.detach() for p in members]
    flat = torch.cat([gradient.reshape(-1) for gradient in gradients])
    dist.all_reduce(flat, group=group)
    flat /= dist.get_world_size(group)
    for parameter, piece in zip(members, flat.split([p.numel() for p in members]), strict=True):
        parameter.grad = piece.view(parameter.shape).to(parameter.dtype)
# endregion
