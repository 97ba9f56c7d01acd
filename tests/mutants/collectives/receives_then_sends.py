"""Every rank waits for its left neighbour before it sends.

law: collectives.ring.never_deadlocks
says: receive
"""
# region solution ring_all_gather
    size, rank = dist.get_world_size(group), dist.get_rank(group)
    right, left = (rank + 1) % size, (rank - 1) % size
    whole = torch.empty(num_elements, dtype=chunk.dtype, device=chunk.device)
    chunks = whole.tensor_split(size)
    chunks[rank].copy_(chunk)
    for step in range(size - 1):
        dist.recv(chunks[(rank - step - 1) % size], group=group, group_src=left)
        dist.send(chunks[(rank - step) % size], group=group, group_dst=right)
    return whole
# endregion
