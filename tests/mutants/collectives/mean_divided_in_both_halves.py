"""Divides the mean in the reduce-scatter and again after the all-gather.

law: collectives.ring.mean_divides_once
says: mean
"""
# region solution ring_all_reduce
    chunk = ring_reduce_scatter(tensor, op, group)
    whole = ring_all_gather(chunk, tensor.numel(), group)
    if op == "mean":
        divide(whole, dist.get_world_size(group))
    tensor.copy_(whole.view(tensor.shape))
# endregion
