"""Always sums in the first half; only the mean is thought of afterwards.

law: collectives.ring.all_reduce_gives_every_rank_the_reduction
says: max
"""
# region solution ring_all_reduce
    chunk = ring_reduce_scatter(tensor, group=group)
    if op == "mean":
        divide(chunk, dist.get_world_size(group))
    whole = ring_all_gather(chunk, tensor.numel(), group)
    tensor.copy_(whole.view(tensor.shape))
# endregion
