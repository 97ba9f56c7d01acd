"""Sends half precision in its own dtype but keeps its own running sum in float32.

law: collectives.recursive_doubling.all_ranks_hold_the_same_bits
says: bits
"""
# region solution recursive_doubling_all_reduce
    size, rank = dist.get_world_size(group), dist.get_rank(group)
    power = 1 << (size.bit_length() - 1)
    half = tensor.is_floating_point() and tensor.element_size() == 2
    total = tensor.flatten().clone()
    wide = total.float() if half else total
    incoming = torch.empty_like(total)
    if rank >= power:
        dist.isend(total, group=group, group_dst=rank - power).wait()
        dist.irecv(total, group=group, group_src=rank - power).wait()
        tensor.copy_(total.view(tensor.shape))
        return
    if rank + power < size:
        dist.irecv(incoming, group=group, group_src=rank + power).wait()
        reduce_into(wide, incoming.to(wide.dtype), op)
    for k in range(power.bit_length() - 1):
        partner = rank ^ (1 << k)
        outgoing = wide.to(total.dtype)
        works = [dist.irecv(incoming, group=group, group_src=partner), dist.isend(outgoing, group=group, group_dst=partner)]
        for work in works:
            work.wait()
        reduce_into(wide, incoming.to(wide.dtype), op)
    if op == "mean":
        divide(wide, size)
    total = wide.to(total.dtype)
    if rank + power < size:
        dist.isend(total, group=group, group_dst=rank + power).wait()
    tensor.copy_(total.view(tensor.shape))
# endregion
