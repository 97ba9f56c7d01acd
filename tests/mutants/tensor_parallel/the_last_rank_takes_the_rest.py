"""Cuts what N doesn't divide into parts of unequal size instead of refusing.

law: tensor_parallel.functions.uneven_parts_are_refused
says: ValueError
"""
# region solution own_part
    return x.tensor_split(dist.get_world_size(group), dim)[dist.get_rank(group)]
# endregion
