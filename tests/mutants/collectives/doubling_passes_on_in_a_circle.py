"""Sends to rank + 2**k and receives from rank - 2**k: as many rounds and bytes, but every rank adds in another order.

law: collectives.recursive_doubling.all_ranks_hold_the_same_bits
says: bits
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
            sending = dist.isend(total, group=group, group_dst=(rank + distance) % power)
            receiving = dist.irecv(incoming, group=group, group_src=(rank - distance) % power)
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
