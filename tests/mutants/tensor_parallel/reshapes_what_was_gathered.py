"""Gathers into a tensor of the joined shape as it lies: parts end up one after the other in memory, in order for dim 0 alone.

law: tensor_parallel.functions.sequence_functions_are_conjugate
says: one behind the other
"""
# region solution gathered
    part = x.contiguous()
    shape = list(part.shape)
    shape[dim] *= dist.get_world_size(group)
    whole = part.new_empty(part.numel() * dist.get_world_size(group))
    all_gather_single(whole, part.view(-1), group=group)
    return whole.view(shape)
# endregion
