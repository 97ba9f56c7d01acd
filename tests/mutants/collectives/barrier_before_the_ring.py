"""Calls a barrier first, to be on the safe side.

law: collectives.ring.uses_point_to_point_only
says: barrier
"""
# region solution ring_all_reduce
    dist.barrier(group)
    chunk = ring_reduce_scatter(tensor, op, group)
    whole = ring_all_gather(chunk, tensor.numel(), group)
    tensor.copy_(whole.view(tensor.shape))
# endregion
