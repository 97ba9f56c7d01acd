"""Refuses by an assertion, which is no ValueError and vanishes under -O.

law: tensor_parallel.functions.uneven_parts_are_refused
says: ValueError
"""
# region solution own_part
    world_size, extent = dist.get_world_size(group), x.shape[dim]
    assert extent % world_size == 0, f"{extent} is not divisible by {world_size}"
    return x.chunk(world_size, dim)[dist.get_rank(group)]
# endregion
