"""Doubles the list of tensors instead of adding, and sums them at the end.

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
        gathered = {}
        if rank + power < size:
            dist.irecv(incoming, group=group, group_src=rank + power).wait()
            reduce_into(total, incoming, op)
        gathered[rank] = total.clone()
        distance = 1
        while distance < power:
            partner = rank ^ distance
            outgoing = torch.stack([gathered[r] for r in sorted(gathered)])
            arriving = torch.empty_like(outgoing)
            works = [dist.irecv(arriving, group=group, group_src=partner), dist.isend(outgoing, group=group, group_dst=partner)]
            for work in works:
                work.wait()
            gathered |= dict(zip(sorted(r ^ distance for r in gathered), arriving))
            distance *= 2
        total = gathered[0].clone()
        for r in range(1, power):
            reduce_into(total, gathered[r], op)
        if op == "mean":
            divide(total, size)
        if rank + power < size:
            dist.isend(total, group=group, group_dst=rank + power).wait()
    tensor.copy_(total.view(tensor.shape))
# endregion
