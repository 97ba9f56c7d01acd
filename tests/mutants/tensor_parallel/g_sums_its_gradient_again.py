"""All-reduces in the backward of g, too: N equal gradients add up to N times one.

law: tensor_parallel.functions.copy_and_reduce_are_conjugate
says: gradient
"""
# region solution reduce_forward
    ctx.group = group
    return summed(x, group)
# endregion
# region solution reduce_backward
    return summed(gradient, ctx.group), None
# endregion
