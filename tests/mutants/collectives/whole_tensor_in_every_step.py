"""Sends the whole buffer in every step, though only one chunk of it is used.

law: collectives.ring.sends_the_optimal_volume
says: times
"""
# region solution ring_reduce_scatter
    size, rank = dist.get_world_size(group), dist.get_rank(group)
    right, left = (rank + 1) % size, (rank - 1) % size
    flat = tensor.flatten().clone()
    chunks = flat.tensor_split(size)
    neighbours = torch.empty_like(flat)
    for step in range(size - 1):
        own = chunks[(rank - step - 2) % size]
        exchange(flat, right, neighbours, left, group)
        reduce_into(own, neighbours.tensor_split(size)[(rank - step - 2) % size], op)
    total = chunks[rank].clone()
    if op == "mean":
        divide(total, size)
    return total
# endregion
