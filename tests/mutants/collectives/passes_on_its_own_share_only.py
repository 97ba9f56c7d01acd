"""Sends each chunk as it came in with the tensor, without what the ranks before have added.

law: collectives.ring.reduce_scatter_leaves_each_rank_its_chunk
says: sum
"""
# region solution ring_reduce_scatter
    size, rank = dist.get_world_size(group), dist.get_rank(group)
    right, left = (rank + 1) % size, (rank - 1) % size
    chunks = tensor.flatten().clone().tensor_split(size)
    shares = tensor.flatten().clone().tensor_split(size)
    for step in range(size - 1):
        outgoing = shares[(rank - step - 1) % size]
        own = chunks[(rank - step - 2) % size]
        incoming = torch.empty_like(own)
        exchange(outgoing, right, incoming, left, group)
        reduce_into(own, incoming, op)
    total = chunks[rank].clone()
    if op == "mean":
        divide(total, size)
    return total
# endregion
