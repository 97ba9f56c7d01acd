"""Sends rank 0's x around in the forward of f, where everybody has it already.

law: tensor_parallel.functions.moves_no_byte_too_many
says: bytes
"""
# region solution copy_forward
    ctx.group = group
    same = x.clone(memory_format=torch.contiguous_format)
    dist.broadcast(same, group=group, group_src=0)
    return same
# endregion
