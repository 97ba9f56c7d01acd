"""Takes S // N elements for every chunk and loses the rest.

law: collectives.ring.works_for_any_size
says: elements
"""
# region solution ring_reduce_scatter
    size, rank = dist.get_world_size(group), dist.get_rank(group)
    right, left = (rank + 1) % size, (rank - 1) % size
    chunks = tensor.flatten().clone().split(tensor.numel() // size)
    for step in range(size - 1):
        outgoing = chunks[(rank - step - 1) % size]
        own = chunks[(rank - step - 2) % size]
        incoming = torch.empty_like(own)
        exchange(outgoing, right, incoming, left, group)
        reduce_into(own, incoming, op)
    total = chunks[rank].clone()
    if op == "mean":
        divide(total, size)
    return total
# endregion
# region solution ring_all_gather
    size, rank = dist.get_world_size(group), dist.get_rank(group)
    right, left = (rank + 1) % size, (rank - 1) % size
    whole = torch.empty(num_elements, dtype=chunk.dtype, device=chunk.device)
    chunks = whole.split(num_elements // size)
    chunks[rank].copy_(chunk)
    for step in range(size - 1):
        exchange(chunks[(rank - step) % size], right, chunks[(rank - step - 1) % size], left, group)
    return whole
# endregion
