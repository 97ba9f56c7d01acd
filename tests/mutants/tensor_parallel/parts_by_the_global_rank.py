"""Takes the part of its global rank.

law: tensor_parallel.functions.subgroups_use_their_own_ranks
says: rank
"""
# region solution own_part
    world_size, extent = dist.get_world_size(group), x.shape[dim]
    if extent % world_size:
        raise ValueError(f"{extent} along dim {dim} can't be cut into {world_size} equal parts, one for each tensor-parallel rank")
    return x.chunk(world_size, dim)[dist.get_rank() % world_size]
# endregion
