"""Takes the own part of the own gradient where tokens are gathered, as if every rank did the same with them.

law: tensor_parallel.functions.sequence_functions_are_conjugate
says: gradient
"""
# region solution all_gather_sequence_backward
    return own_part(gradient, ctx.dim, ctx.group).contiguous(), None, None
# endregion
