"""Gathers by an all-reduce of tensors that are zero but for the own part: right, for twice the bytes.

law: tensor_parallel.functions.moves_no_byte_too_many
says: bytes
"""
# region solution gathered
    shape = list(x.shape)
    shape[dim] *= dist.get_world_size(group)
    whole = x.new_zeros(shape)
    own_part(whole, dim, group).copy_(x)
    dist.all_reduce(whole, group=group)
    return whole
# endregion
