"""Scatters halves, the first to rank 0 and the second to everybody else: right with two ranks only.

law: tensor_parallel.functions.scatter_and_gather_are_conjugate
says: shape
"""
# region solution scatter_forward
    ctx.group = group
    extent, world_size = x.shape[-1], dist.get_world_size(group)
    if extent % world_size:
        raise ValueError(f"{extent} along the last dim can't be cut for {world_size} ranks")
    if world_size == 1:
        return x.clone()
    half = extent // 2
    return (x[..., :half] if dist.get_rank(group) == 0 else x[..., half : 2 * half]).contiguous()
# endregion
