"""Fetches each chunk directly from its owner, past the ring.

law: collectives.ring.talks_to_neighbours_only
says: neighbour
"""
# region solution ring_all_gather
    size, rank = dist.get_world_size(group), dist.get_rank(group)
    whole = torch.empty(num_elements, dtype=chunk.dtype, device=chunk.device)
    chunks = whole.tensor_split(size)
    chunks[rank].copy_(chunk)
    for distance in range(1, size):
        exchange(chunks[rank], (rank + distance) % size, chunks[(rank - distance) % size], (rank - distance) % size, group)
    return whole
# endregion
