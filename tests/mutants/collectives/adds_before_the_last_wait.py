"""Adds what it receives first and waits for it afterwards.

law: collectives.ring.waits_before_it_reads
says: wait
"""
# region solution ring_reduce_scatter
    size, rank = dist.get_world_size(group), dist.get_rank(group)
    right, left = (rank + 1) % size, (rank - 1) % size
    chunks = tensor.flatten().clone().tensor_split(size)
    works = []
    for step in range(size - 1):
        own = chunks[(rank - step - 2) % size]
        incoming = torch.empty_like(own)
        works.append(dist.isend(chunks[(rank - step - 1) % size], group=group, group_dst=right))
        works.append(dist.irecv(incoming, group=group, group_src=left))
        reduce_into(own, incoming, op)
        for work in works:
            work.wait()
    total = chunks[rank].clone()
    if op == "mean":
        divide(total, size)
    return total
# endregion
