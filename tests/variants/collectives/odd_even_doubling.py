"""Recursive doubling with other extras and another order: of the first 2 (N - P) ranks the even ones hand over to the odd ones, the
remaining P double with the farthest partner first, and the lower rank's share always comes first in the sum.
"""
# region solution recursive_doubling_all_reduce
    size, rank = dist.get_world_size(group), dist.get_rank(group)
    power = 1
    while 2 * power <= size:
        power *= 2
    pairs = size - power
    total = tensor.flatten().clone()
    if rank < 2 * pairs and rank % 2 == 0:
        dist.send(total, group=group, group_dst=rank + 1)
        dist.recv(total, group=group, group_src=rank + 1)
        tensor.copy_(total.view(tensor.shape))
        return
    if rank < 2 * pairs:
        before = torch.empty_like(total)
        dist.recv(before, group=group, group_src=rank - 1)
        reduce_into(before, total, op)
        total = before
    place = rank // 2 if rank < 2 * pairs else rank - pairs
    distance = power // 2
    while distance >= 1:
        other = place ^ distance
        partner = 2 * other + 1 if other < pairs else other + pairs
        incoming = torch.empty_like(total)
        works = [dist.isend(total, group=group, group_dst=partner), dist.irecv(incoming, group=group, group_src=partner)]
        for work in works:
            work.wait()
        low, high = (total, incoming) if place < other else (incoming, total)
        reduce_into(low, high, op)
        total = low
        distance //= 2
    if op == "mean":
        divide(total, size)
    if rank < 2 * pairs:
        dist.send(total, group=group, group_dst=rank - 1)
    tensor.copy_(total.view(tensor.shape))
# endregion
