"""Asks for its rank and the world size without the group.

law: collectives.ring.subgroups_use_their_own_ranks
says: group
"""
# region solution ring_reduce_scatter
    size, rank = dist.get_world_size(), dist.get_rank()
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
        divide(total, size)
    return total
# endregion
