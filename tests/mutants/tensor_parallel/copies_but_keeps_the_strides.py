"""Clones with the strides of the original.

law: tensor_parallel.functions.any_layout_and_dtype
says: contiguous
"""
# region solution summed
    # A copy, because all_reduce writes where it reads; contiguous, because it reads memory from the first element on.
    total = x.clone()
    dist.all_reduce(total, group=group)
    return total
# endregion
