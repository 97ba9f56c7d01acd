"""Uses isend and irecv, but waits for the send before it starts the receive.

law: collectives.ring.never_deadlocks
says: send
"""
# region solution ring_reduce_scatter
    size, rank = dist.get_world_size(group), dist.get_rank(group)
    right, left = (rank + 1) % size, (rank - 1) % size
    chunks = tensor.flatten().clone().tensor_split(size)
    for step in range(size - 1):
        outgoing = chunks[(rank - step - 1) % size]
        own = chunks[(rank - step - 2) % size]
        incoming = torch.empty_like(own)
        sending = dist.isend(outgoing, group=group, group_dst=right)
        sending.wait()
        receiving = dist.irecv(incoming, group=group, group_src=left)
        receiving.wait()
        reduce_into(own, incoming, op)
    total = chunks[rank].clone()
    if op == "mean":
        divide(total, size)
    return total
# endregion
