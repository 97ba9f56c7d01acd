"""Sends the size of each chunk before the chunk.

law: collectives.ring.sends_the_optimal_volume
says: elements
"""
# region solution ring_reduce_scatter
    size, rank = dist.get_world_size(group), dist.get_rank(group)
    right, left = (rank + 1) % size, (rank - 1) % size
    chunks = tensor.flatten().clone().tensor_split(size)
    for step in range(size - 1):
        outgoing = chunks[(rank - step - 1) % size]
        own = chunks[(rank - step - 2) % size]
        count = torch.zeros(1, dtype=tensor.dtype, device=tensor.device)
        exchange(torch.full_like(count, outgoing.numel() % 100), right, count, left, group)
        incoming = torch.empty_like(own)
        exchange(outgoing, right, incoming, left, group)
        reduce_into(own, incoming, op)
    total = chunks[rank].clone()
    if op == "mean":
        divide(total, size)
    return total
# endregion
