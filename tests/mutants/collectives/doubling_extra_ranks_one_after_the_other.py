"""Rank 0 takes in all extra ranks one by one, and tells them one by one.

law: collectives.recursive_doubling.takes_log2_rounds
says: rounds
"""
# region solution recursive_doubling_all_reduce
    size, rank = dist.get_world_size(group), dist.get_rank(group)
    power = 1 << (size.bit_length() - 1)
    total = tensor.flatten().clone()
    incoming = torch.empty_like(total)
    if rank >= power:
        dist.isend(total, group=group, group_dst=0).wait()
        dist.irecv(total, group=group, group_src=0).wait()
    else:
        for extra in range(power, size) if rank == 0 else []:
            dist.irecv(incoming, group=group, group_src=extra).wait()
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
        for extra in range(power, size) if rank == 0 else []:
            dist.isend(total, group=group, group_dst=extra).wait()
    tensor.copy_(total.view(tensor.shape))
# endregion
