"""Reduces one chunk round the whole ring before it starts the next.

law: collectives.ring.takes_the_fewest_rounds
says: rounds
"""
# region solution ring_reduce_scatter
    size, rank = dist.get_world_size(group), dist.get_rank(group)
    chunks = tensor.flatten().clone().tensor_split(size)
    for c, chunk in enumerate(chunks):
        place = (rank - c - 1) % size
        if place > 0:
            incoming = torch.empty_like(chunk)
            dist.recv(incoming, group=group, group_src=(rank - 1) % size)
            reduce_into(chunk, incoming, op)
        if place < size - 1:
            dist.send(chunk, group=group, group_dst=(rank + 1) % size)
    total = chunks[rank].clone()
    if op == "mean":
        divide(total, size)
    return total
# endregion
