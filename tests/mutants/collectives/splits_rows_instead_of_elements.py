"""Cuts dim 0 of the tensor instead of the flattened tensor.

law: collectives.ring.reduce_scatter_leaves_each_rank_its_chunk
says: chunk
"""
# region solution ring_reduce_scatter
    size, rank = dist.get_world_size(group), dist.get_rank(group)
    right, left = (rank + 1) % size, (rank - 1) % size
    chunks = tensor.clone(memory_format=torch.contiguous_format).tensor_split(size)
    for step in range(size - 1):
        outgoing = chunks[(rank - step - 1) % size]
        own = chunks[(rank - step - 2) % size]
        incoming = torch.empty_like(own)
        exchange(outgoing, right, incoming, left, group)
        reduce_into(own, incoming, op)
    total = chunks[rank].flatten().clone()
    if op == "mean":
        divide(total, size)
    return total
# endregion
