"""Takes the rank in the world modulo N for that in the group: right where groups are neighbours.

law: tensor_parallel.functions.subgroups_use_their_own_ranks
says: group's rank
"""
# region solution own_part
    world_size, extent = dist.get_world_size(group), x.shape[dim]
    if extent % world_size:
        raise ValueError(f"{extent} along dim {dim} can't be cut into {world_size} equal parts")
    return x.chunk(world_size, dim)[dist.get_rank() % world_size]
# endregion
