"""Divides every rank's share by N and sums the quotients, so that integers are rounded N times.

law: collectives.ring.mean_divides_once
says: mean
"""
# region solution ring_reduce_scatter
    size, rank = dist.get_world_size(group), dist.get_rank(group)
    right, left = (rank + 1) % size, (rank - 1) % size
    flat = tensor.flatten().clone()
    if op == "mean":
        divide(flat, size)
    chunks = flat.tensor_split(size)
    for step in range(size - 1):
        outgoing = chunks[(rank - step - 1) % size]
        own = chunks[(rank - step - 2) % size]
        incoming = torch.empty_like(own)
        exchange(outgoing, right, incoming, left, group)
        reduce_into(own, incoming, op)
    total = chunks[rank].clone()
    return total
# endregion
