"""Sends all tensors to rank 0, which adds them and sends the total back.

law: collectives.ring.sends_the_optimal_volume
says: rank 0
"""
# region solution ring_all_reduce
    size, rank = dist.get_world_size(group), dist.get_rank(group)
    total = tensor.flatten().clone()
    if rank == 0:
        incoming = torch.empty_like(total)
        for other in range(1, size):
            dist.irecv(incoming, group=group, group_src=other).wait()
            reduce_into(total, incoming, op)
        if op == "mean":
            divide(total, size)
        works = [dist.isend(total, group=group, group_dst=other) for other in range(1, size)]
        for work in works:
            work.wait()
    else:
        dist.isend(total, group=group, group_dst=0).wait()
        dist.irecv(total, group=group, group_src=0).wait()
    tensor.copy_(total.view(tensor.shape))
# endregion
