"""Scatter's backward is that of a slice: zeros where the other ranks' parts belong.

law: tensor_parallel.functions.scatter_and_gather_are_conjugate
says: zeros where
"""
# region solution scatter_forward
    ctx.group, ctx.whole_shape = group, x.shape
    return own_part(x, -1, group).contiguous()
# endregion
# region solution scatter_backward
    whole = gradient.new_zeros(ctx.whole_shape)
    own_part(whole, -1, ctx.group).copy_(gradient)
    return whole, None
# endregion
