"""Divides f's summed gradient by N, as data parallelism would.

law: tensor_parallel.functions.copy_and_reduce_are_conjugate
says: gradient
"""
# region solution copy_backward
    return summed(gradient, ctx.group) / dist.get_world_size(ctx.group), None
# endregion
