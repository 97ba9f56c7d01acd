"""Applies XOR to the global rank.

law: collectives.recursive_doubling.subgroups_use_their_own_ranks
says: group
"""
# region solution recursive_doubling_all_reduce
    size, rank = dist.get_world_size(group), dist.get_rank()
    power = 1 << (size.bit_length() - 1)
    total = tensor.flatten().clone()
    incoming = torch.empty_like(total)
    if rank >= power:
        dist.isend(total, group=group, group_dst=rank - power).wait()
        dist.irecv(total, group=group, group_src=rank - power).wait()
    else:
        if rank + power < size:
            dist.irecv(incoming, group=group, group_src=rank + power).wait()
            reduce_into(total, incoming, op)
        distance = 1
        while distance < power:
            partner = rank ^ distance
            sending = dist.isend(total, group=group, group_dst=partner)
            receiving = dist.irecv(incoming, group=group, group_src=partner)
            receiving.wait()
            sending.wait()
            reduce_into(total, incoming, op)
            distance *= 2
        if op == "mean":
            divide(total, size)
        if rank + power < size:
            dist.isend(total, group=group, group_dst=rank + power).wait()
    tensor.copy_(total.view(tensor.shape))
# endregion
