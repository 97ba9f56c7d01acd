"""Sends every chunk directly to the rank that keeps it, past the ring.

law: collectives.ring.talks_to_neighbours_only
says: neighbour
"""
# region solution ring_reduce_scatter
    size, rank = dist.get_world_size(group), dist.get_rank(group)
    chunks = tensor.flatten().clone().tensor_split(size)
    total = chunks[rank].clone()
    incoming = torch.empty_like(total)
    for distance in range(1, size):
        target, origin = (rank + distance) % size, (rank - distance) % size
        exchange(chunks[target], target, incoming, origin, group)
        reduce_into(total, incoming, op)
    if op == "mean":
        divide(total, size)
    return total
# endregion
