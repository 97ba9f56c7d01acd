"""Sums first and finds out afterwards that the sum can't be cut.

law: tensor_parallel.functions.uneven_parts_are_refused
says: sent
"""
# region solution summed_part
    if x.shape[dim] % dist.get_world_size(group):
        x = summed(x, group)
    whole = x.movedim(dim, 0).contiguous()
    part = torch.empty_like(own_part(whole, 0, group))
    reduce_scatter_single(part, whole, group=group)
    return part.movedim(0, dim)
# endregion
