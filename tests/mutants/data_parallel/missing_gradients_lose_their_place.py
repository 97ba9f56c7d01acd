"""Joins the gradients that are there: where one is missing, the later ones shift, or the ranks' messages differ in size.

law: data_parallel.flat.missing_gradients_count_as_zeros
says: all_reduce
"""
# region solution flat_all_reduce_gradients
    by_dtype: dict[torch.dtype, list[nn.Parameter]] = {}
    for parameter in parameters:
        if parameter.requires_grad and parameter.grad is not None:
            by_dtype.setdefault(parameter.dtype, []).append(parameter)
    for members in by_dtype.values():
        gradients = [torch.zeros_like(p) if p.grad is None else p.grad.detach() for p in members]
        flat = torch.cat([gradient.reshape(-1) for gradient in gradients])
        dist.all_reduce(flat, group=group)
        flat /= dist.get_world_size(group)
        for parameter, piece in zip(members, flat.split([p.numel() for p in members]), strict=True):
            parameter.grad = piece.view(parameter.shape)
# endregion
