"""An all-reduce that doesn't call the two halves: pieces of ceil(S / N) elements (the last ones shorter or empty, and then not sent),
rank r completes piece r + 1 as textbooks draw it, works in the tensor's own memory where that is contiguous, and every rank divides
the whole sum by N at the end.
"""
# region solution ring_all_reduce
    size, rank = dist.get_world_size(group), dist.get_rank(group)
    flat = tensor.view(-1) if tensor.is_contiguous() else tensor.reshape(-1).clone()
    each = -(-flat.numel() // size)
    pieces = [flat[i * each : (i + 1) * each] for i in range(size)]
    spare = flat.new_empty(each)

    for step in range(2 * (size - 1)):
        reducing = step < size - 1
        outgoing = pieces[(rank - step) % size]
        target = pieces[(rank - step - 1) % size]
        incoming = spare[: target.numel()] if reducing else target
        works = []
        if outgoing.numel():
            works.append(dist.isend(outgoing, group=group, group_dst=(rank + 1) % size))
        if incoming.numel():
            works.append(dist.irecv(incoming, group=group, group_src=(rank + size - 1) % size))
        for work in works:
            work.wait()
        if reducing:
            reduce_into(target, incoming, op)

    if op == "mean":
        divide(flat, size)
    if not tensor.is_contiguous():
        tensor.copy_(flat.view_as(tensor))
# endregion
