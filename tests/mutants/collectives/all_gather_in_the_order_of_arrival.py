"""Joins the chunks in the order in which they arrive.

law: collectives.ring.all_gather_rebuilds_the_whole
says: chunk
"""
# region solution ring_all_gather
    size, rank = dist.get_world_size(group), dist.get_rank(group)
    right, left = (rank + 1) % size, (rank - 1) % size
    whole = torch.empty(num_elements, dtype=chunk.dtype, device=chunk.device)
    chunks = whole.tensor_split(size)
    chunks[rank].copy_(chunk)
    for step in range(size - 1):
        exchange(chunks[(rank - step) % size], right, chunks[(rank - step - 1) % size], left, group)
    return torch.cat([chunks[(rank - step) % size] for step in range(size)])
# endregion
