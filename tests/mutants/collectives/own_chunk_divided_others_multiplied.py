"""Gathers sums; divides its own chunk of a mean by N and multiplies the others by 1 / N.

law: collectives.ring.all_ranks_hold_the_same_bits
says: bits
"""
# region solution ring_all_reduce
    size, rank = dist.get_world_size(group), dist.get_rank(group)
    if op != "mean" or not tensor.is_floating_point():
        whole = ring_all_gather(ring_reduce_scatter(tensor, op, group), tensor.numel(), group)
    else:
        chunk = ring_reduce_scatter(tensor, "sum", group)
        whole = ring_all_gather(chunk, tensor.numel(), group)
        whole.mul_(1 / size)
        divide(chunk, size)
        whole.tensor_split(size)[rank].copy_(chunk)
    tensor.copy_(whole.view(tensor.shape))
# endregion
