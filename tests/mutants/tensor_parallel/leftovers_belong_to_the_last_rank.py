"""Cuts into unequal parts instead of refusing.

law: tensor_parallel.functions.uneven_parts_are_refused
says: ValueError
"""
# region solution own_part
    world_size = dist.get_world_size(group)
    return x.chunk(world_size, dim)[dist.get_rank(group)]
# endregion
