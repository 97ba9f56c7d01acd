"""Deals the last dim out one by one (r, r + N, r + 2N, …) instead of in contiguous parts.

law: tensor_parallel.functions.scatter_and_gather_are_conjugate
says: every N-th number
"""
# region solution scatter_forward
    ctx.group, ctx.whole_shape = group, x.shape
    world_size, extent = dist.get_world_size(group), x.shape[-1]
    if extent % world_size:
        raise ValueError(f"{extent} can't be cut into {world_size} parts")
    return x[..., dist.get_rank(group) :: world_size].contiguous()
# endregion
# region solution scatter_backward
    joined = gathered(gradient, -1, ctx.group)
    world_size = dist.get_world_size(ctx.group)
    return joined.unflatten(-1, (world_size, -1)).transpose(-2, -1).reshape(ctx.whole_shape), None
# endregion
