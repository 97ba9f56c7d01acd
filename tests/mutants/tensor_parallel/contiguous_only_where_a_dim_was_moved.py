"""Makes the part contiguous where it moves a dim; along dim 0 it goes to the collective in whatever strides it has.

law: tensor_parallel.functions.any_layout_and_dtype
says: contiguous
"""
# region solution gathered
    part = x.movedim(dim, 0).contiguous() if dim else x
    whole = torch.empty((dist.get_world_size(group) * part.shape[0], *part.shape[1:]), dtype=x.dtype, device=x.device)
    all_gather_single(whole, part, group=group)
    return whole.movedim(0, dim)
# endregion
