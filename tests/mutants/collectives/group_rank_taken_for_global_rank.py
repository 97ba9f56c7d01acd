"""Passes group ranks as dst and src, which are global ranks.

law: collectives.ring.subgroups_use_their_own_ranks
says: group
"""
# region solution exchange
    works = [dist.irecv(incoming, receive_from, group=group), dist.isend(outgoing, send_to, group=group)]
    for work in works:
        work.wait()
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
