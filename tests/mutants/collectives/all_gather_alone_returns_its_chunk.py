"""With one rank there is nothing to gather and the chunk itself comes back.

law: collectives.ring.changes_only_what_it_must
says: chunk
"""
# region solution ring_all_gather
    size, rank = dist.get_world_size(group), dist.get_rank(group)
    if size == 1:
        return chunk
    right, left = (rank + 1) % size, (rank - 1) % size
    whole = torch.empty(num_elements, dtype=chunk.dtype, device=chunk.device)
    chunks = whole.tensor_split(size)
    chunks[rank].copy_(chunk)
    for step in range(size - 1):
        exchange(chunks[(rank - step) % size], right, chunks[(rank - step - 1) % size], left, group)
    return whole
# endregion
