"""Gives the group to the reduce-scatter and forgets it in the all-gather.

law: collectives.ring.subgroups_use_their_own_ranks
says: group
"""
# region solution ring_all_reduce
    chunk = ring_reduce_scatter(tensor, op, group)
    whole = ring_all_gather(chunk, tensor.numel())
    tensor.copy_(whole.view(tensor.shape))
# endregion
