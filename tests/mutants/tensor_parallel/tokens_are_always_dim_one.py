"""Ignores `dim` where tokens are gathered and always joins along dim 1.

law: tensor_parallel.functions.sequence_functions_are_conjugate
says: dim
"""
# region solution all_gather_sequence_forward
    ctx.group, ctx.dim = group, 1
    return gathered(x, 1, group)
# endregion
