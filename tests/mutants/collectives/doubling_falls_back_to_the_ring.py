"""Doubles for powers of two and runs the ring for all other world sizes.

law: collectives.recursive_doubling.takes_log2_rounds
says: rounds
"""
# region solution recursive_doubling_all_reduce
    size, rank = dist.get_world_size(group), dist.get_rank(group)
    if size & (size - 1):
        ring_all_reduce(tensor, op, group)
        return
    total = tensor.flatten().clone()
    incoming = torch.empty_like(total)
    for k in range(size.bit_length() - 1):
        partner = rank ^ (1 << k)
        works = [dist.irecv(incoming, group=group, group_src=partner), dist.isend(total, group=group, group_dst=partner)]
        for work in works:
            work.wait()
        reduce_into(total, incoming, op)
    if op == "mean":
        divide(total, size)
    tensor.copy_(total.view(tensor.shape))
# endregion
