"""Divides by the number of additions, N - 1, instead of the number of ranks.

law: collectives.ring.mean_divides_once
says: mean
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
        reduce_into(own, incoming, op)
    total = chunks[rank].clone()
    if op == "mean":
        divide(total, max(size - 1, 1))
    return total
# endregion
