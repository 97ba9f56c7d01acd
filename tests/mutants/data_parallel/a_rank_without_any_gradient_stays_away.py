"""Returns at once where this rank has no gradient at all; the others wait for it.

law: data_parallel.flat.missing_gradients_count_as_zeros
says: wait for each other
"""
    # region solution flat_all_reduce_gradients
    world_size = dist.get_world_size(group)
    by_dtype: dict[torch.dtype, list[nn.Parameter]] = {}
    for parameter in parameters:
        if parameter.requires_grad:
            by_dtype.setdefault(parameter.dtype, []).append(parameter)
    if all(parameter.grad is None for alike in by_dtype.values() for parameter in alike):
        return
    for alike in by_dtype.values():
        flat = flattened_gradients(alike)
        dist.all_reduce(flat, group=group)
        hand_out(flat.div_(world_size), alike)
    # endregion
