"""The backward of all_gather_sequence is that of gather_from_tensor_parallel.

law: tensor_parallel.functions.sequence_functions_are_conjugate
says: all_gather_sequence
"""
# region solution all_gather_sequence_backward
        return own_part(gradient, ctx.dim, ctx.group).contiguous(), None, None
# endregion
