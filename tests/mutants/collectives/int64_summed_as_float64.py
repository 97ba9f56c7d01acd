"""Sums int64 as float64, which has as many bytes but is exact only up to 2**53.

law: collectives.ring.all_reduce_gives_every_rank_the_reduction
says: int64
"""
# region solution ring_reduce_scatter
    size, rank = dist.get_world_size(group), dist.get_rank(group)
    right, left = (rank + 1) % size, (rank - 1) % size
    flat = tensor.flatten().clone()
    chunks = (flat.double() if flat.dtype == torch.int64 else flat).tensor_split(size)
    for step in range(size - 1):
        outgoing = chunks[(rank - step - 1) % size]
        own = chunks[(rank - step - 2) % size]
        incoming = torch.empty_like(own)
        exchange(outgoing, right, incoming, left, group)
        reduce_into(own, incoming, op)
    total = chunks[rank].to(tensor.dtype, copy=True)
    if op == "mean":
        divide(total, size)
    return total
# endregion
