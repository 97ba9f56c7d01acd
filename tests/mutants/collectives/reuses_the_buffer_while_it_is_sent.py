"""Folds the next chunk into the buffer that is still being sent, and waits for all sends at the end.

law: collectives.ring.waits_before_it_reads
says: wait
"""
# region solution ring_reduce_scatter
    size, rank = dist.get_world_size(group), dist.get_rank(group)
    flat = tensor.flatten()
    chunks = flat.tensor_split(size)
    buffer = flat.new_empty(-(-flat.numel() // size))
    buffer[: chunks[(rank - 1) % size].numel()].copy_(chunks[(rank - 1) % size])
    count = chunks[(rank - 1) % size].numel()
    sends = []
    for step in range(size - 1):
        own = chunks[(rank - step - 2) % size]
        incoming = torch.empty_like(own)
        sends.append(dist.isend(buffer[:count], group=group, group_dst=(rank + 1) % size))
        dist.irecv(incoming, group=group, group_src=(rank - 1) % size).wait()
        reduce_into(incoming, own, op)
        count = own.numel()
        buffer[:count].copy_(incoming)
    for send in sends:
        send.wait()
    total = buffer[: chunks[rank].numel()].clone()
    if op == "mean":
        divide(total, size)
    return total
# endregion
