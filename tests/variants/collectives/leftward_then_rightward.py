"""The reduce-scatter walks left and the all-gather right; all receives of a half are posted before its first send, and the sends are
waited for only at the end.
"""
# region solution ring_reduce_scatter
    size, rank = dist.get_world_size(group), dist.get_rank(group)
    here, there = (rank + 1) % size, (rank - 1) % size
    chunks = tensor.reshape(-1).tensor_split(size)
    order = [(rank + hop) % size for hop in range(1, size + 1)]
    partial = [chunks[c].clone() if hop == 0 else torch.empty_like(chunks[c]) for hop, c in enumerate(order)]
    receives = [dist.irecv(buffer, group=group, group_src=here) for buffer in partial[1:]]
    sends = []
    for hop, c in enumerate(order):
        if hop > 0:
            receives[hop - 1].wait()
            reduce_into(partial[hop], chunks[c], op)
        if hop < size - 1:
            sends.append(dist.isend(partial[hop], group=group, group_dst=there))
    for send in sends:
        send.wait()
    if op == "mean":
        divide(partial[-1], size)
    return partial[-1]
# endregion
# region solution ring_all_gather
    size, rank = dist.get_world_size(group), dist.get_rank(group)
    base, longer = divmod(num_elements, size)
    parts = [chunk.new_empty(base + (c < longer)) for c in range(size)]
    parts[rank].copy_(chunk)
    order = [(rank - hop) % size for hop in range(size)]
    receives = [None] + [dist.irecv(parts[c], group=group, group_src=(rank - 1) % size) for c in order[1:]]
    sends = []
    for receive, c in zip(receives, order):
        if receive is not None:
            receive.wait()
        if c != (rank + 1) % size:
            sends.append(dist.isend(parts[c], group=group, group_dst=(rank + 1) % size))
    for send in sends:
        send.wait()
    return torch.cat(parts)
# endregion
