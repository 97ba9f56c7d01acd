"""Swaps f and g.

law: tensor_parallel.functions.copy_and_reduce_are_conjugate
says: the sum over the ranks
"""
# region solution copy_forward
        ctx.group = group
        return summed(x, group)
# endregion

# region solution copy_backward
        return gradient, None
# endregion

# region solution reduce_forward
        ctx.group = group
        return x.view_as(x)
# endregion

# region solution reduce_backward
        return summed(gradient, ctx.group), None
# endregion
