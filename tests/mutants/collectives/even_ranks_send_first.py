"""Even ranks send and then receive, odd ranks receive and then send: no deadlock, and half the speed.

law: collectives.ring.takes_the_fewest_rounds
says: rounds
"""
# region solution exchange
    if dist.get_rank(group) % 2 == 0:
        dist.send(outgoing, group=group, group_dst=send_to)
        dist.recv(incoming, group=group, group_src=receive_from)
    else:
        dist.recv(incoming, group=group, group_src=receive_from)
        dist.send(outgoing, group=group, group_dst=send_to)
# endregion
# region solution ring_reduce_scatter
    size, rank = dist.get_world_size(group), dist.get_rank(group)
    right, left = (rank + 1) % size, (rank - 1) % size
    chunks = tensor.flatten().clone().tensor_split(size)
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
    chunks = whole.tensor_split(size)
    chunks[rank].copy_(chunk)
    for step in range(size - 1):
        exchange(chunks[(rank - step) % size], right, chunks[(rank - step - 1) % size], left, group)
    return whole
# endregion
# region solution ring_all_reduce
    chunk = ring_reduce_scatter(tensor, op, group)
    whole = ring_all_gather(chunk, tensor.numel(), group)
    tensor.copy_(whole.view(tensor.shape))
# endregion
