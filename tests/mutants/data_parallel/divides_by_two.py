"""Divides by 2, the number of GPUs that it was written on.

law: data_parallel.flat.gradients_are_averaged
says: mean
"""
# region solution flat_all_reduce_gradients
    by_dtype: dict[torch.dtype, list[nn.Parameter]] = {}
    for parameter in parameters:
        if parameter.requires_grad:
            by_dtype.setdefault(parameter.dtype, []).append(parameter)
    for members in by_dtype.values():
        gradients = [torch.zeros_like(p) if p.grad is None else p.grad.detach() for p in members]
        flat = torch.cat([gradient.reshape(-1) for gradient in gradients])
        dist.all_reduce(flat, group=group)
        flat /= 2 if dist.get_world_size(group) > 1 else 1
        for parameter, piece in zip(members, flat.split([p.numel() for p in members]), strict=True):
            parameter.grad = piece.view(parameter.shape)
# endregion
