"""Skips partners that don't exist, so that some shares never reach some ranks.

law: collectives.recursive_doubling.gives_every_rank_the_reduction
says: rank
"""
# region solution recursive_doubling_all_reduce
    size, rank = dist.get_world_size(group), dist.get_rank(group)
    total = tensor.flatten().clone()
    incoming = torch.empty_like(total)
    distance = 1
    while distance < size:
        partner = rank ^ distance
        if partner < size:
            works = [dist.irecv(incoming, group=group, group_src=partner), dist.isend(total, group=group, group_dst=partner)]
            for work in works:
                work.wait()
            reduce_into(total, incoming, op)
        distance *= 2
    if op == "mean":
        divide(total, size)
    tensor.copy_(total.view(tensor.shape))
# endregion
