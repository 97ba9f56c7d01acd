"""Clones before it sums, but a clone of a transposed tensor is transposed, too, and so it goes to the collective.

law: tensor_parallel.functions.any_layout_and_dtype
says: contiguous
"""
# region solution summed
    total = x.clone()
    dist.all_reduce(total, group=group)
    return total
# endregion
