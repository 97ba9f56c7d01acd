"""Sends the tensor twice in every round and uses the second copy, for reliability.

law: collectives.recursive_doubling.sends_the_whole_once_per_round
says: times
"""
# region solution recursive_doubling_all_reduce
    size, rank = dist.get_world_size(group), dist.get_rank(group)
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
            both = torch.empty((2, total.numel()), dtype=total.dtype, device=total.device)
            sending = dist.isend(torch.stack([total, total]), group=group, group_dst=partner)
            receiving = dist.irecv(both, group=group, group_src=partner)
            receiving.wait()
            sending.wait()
            incoming = both[1]
            reduce_into(total, incoming, op)
            distance *= 2
        if op == "mean":
            divide(total, size)
        if rank + power < size:
            dist.isend(total, group=group, group_dst=rank + power).wait()
    tensor.copy_(total.view(tensor.shape))
# endregion
