"""Runs N steps in the all-gather; the last brings every chunk home to its owner.

law: collectives.ring.sends_the_optimal_volume
says: elements
"""
# region solution ring_all_gather
    size, rank = dist.get_world_size(group), dist.get_rank(group)
    right, left = (rank + 1) % size, (rank - 1) % size
    whole = torch.empty(num_elements, dtype=chunk.dtype, device=chunk.device)
    chunks = whole.tensor_split(size)
    chunks[rank].copy_(chunk)
    for step in range(size):
        exchange(chunks[(rank - step) % size], right, chunks[(rank - step - 1) % size], left, group)
    return whole
# endregion
