"""Keeps the dim on the class instead of in ctx: a second call before backward changes the first one's.

law: tensor_parallel.functions.sequence_functions_are_conjugate
says: gradient
"""
# region solution all_gather_sequence_forward
    AllGatherSequence.dim = dim
    ctx.group = group
    return gathered(x, dim, group)
# endregion
# region solution all_gather_sequence_backward
    return summed_part(gradient, AllGatherSequence.dim, ctx.group), None, None
# endregion
