"""Takes its own chunk for that of its right neighbour, so that every chunk lands one place too far.

law: collectives.ring.all_gather_rebuilds_the_whole
says: chunk
"""
# region solution ring_all_gather
    size, rank = dist.get_world_size(group), dist.get_rank(group)
    right, left = (rank + 1) % size, (rank - 1) % size
    whole = torch.empty(num_elements, dtype=chunk.dtype, device=chunk.device)
    chunks = whole.tensor_split(size)
    chunks[right].copy_(chunk)
    for step in range(size - 1):
        exchange(chunks[(rank - step + 1) % size], right, chunks[(rank - step) % size], left, group)
    return whole
# endregion
