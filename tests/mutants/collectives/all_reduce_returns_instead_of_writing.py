"""Returns the reduction and leaves the caller's tensor as it was.

law: collectives.ring.all_reduce_gives_every_rank_the_reduction
says: in place
"""
# region solution ring_all_reduce
    chunk = ring_reduce_scatter(tensor, op, group)
    return ring_all_gather(chunk, tensor.numel(), group).view(tensor.shape)
# endregion
