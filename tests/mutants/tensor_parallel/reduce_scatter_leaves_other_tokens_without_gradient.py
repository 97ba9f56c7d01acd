"""Puts the gradient of the own tokens between zeros: addends to the other ranks' tokens get none.

law: tensor_parallel.functions.sequence_functions_are_conjugate
says: gradient
"""
# region solution reduce_scatter_sequence_forward
    ctx.group, ctx.dim, ctx.shape = group, dim, x.shape
    return summed_part(x, dim, group)
# endregion
# region solution reduce_scatter_sequence_backward
    whole = gradient.new_zeros(ctx.shape)
    own_part(whole, ctx.dim, ctx.group).copy_(gradient)
    return whole, None, None
# endregion
