"""Assigns the result to its own name instead of writing it into the caller's tensor.

law: collectives.ring.all_reduce_gives_every_rank_the_reduction
says: in place
"""
# region solution ring_all_reduce
    chunk = ring_reduce_scatter(tensor, op, group)
    tensor = ring_all_gather(chunk, tensor.numel(), group).view(tensor.shape)
# endregion
