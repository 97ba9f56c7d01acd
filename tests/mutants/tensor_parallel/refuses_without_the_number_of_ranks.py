"""Refuses with the extent alone; who reads the message must guess by what it isn't divisible.

law: tensor_parallel.functions.uneven_parts_are_refused
says: number
"""
# region solution own_part
    world_size, extent = dist.get_world_size(group), x.shape[dim]
    if extent % world_size:
        raise ValueError(f"an extent of {extent} is not divisible by the tensor-parallel degree")
    return x.chunk(world_size, dim)[dist.get_rank(group)]
# endregion
