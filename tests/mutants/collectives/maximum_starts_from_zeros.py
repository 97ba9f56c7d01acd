"""Accumulates into zeros, which are larger than any negative maximum.

law: collectives.ring.all_reduce_gives_every_rank_the_reduction
says: max
"""
# region solution ring_reduce_scatter
    size, rank = dist.get_world_size(group), dist.get_rank(group)
    right, left = (rank + 1) % size, (rank - 1) % size
    chunks = tensor.flatten().clone().tensor_split(size)
    for step in range(size - 1):
        outgoing = chunks[(rank - step - 1) % size]
        own = chunks[(rank - step - 2) % size]
        incoming = torch.empty_like(own)
        exchange(outgoing, right, incoming, left, group)
        total = torch.zeros_like(own)
        reduce_into(total, own, op)
        reduce_into(total, incoming, op)
        own.copy_(total)
    total = chunks[rank].clone()
    if op == "mean":
        divide(total, size)
    return total
# endregion
