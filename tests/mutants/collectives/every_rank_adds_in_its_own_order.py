"""Adds whole tensors as they come round the ring, so that every rank adds in another order.

law: collectives.ring.all_ranks_hold_the_same_bits
says: bits
"""
# region solution ring_all_reduce
    size, rank = dist.get_world_size(group), dist.get_rank(group)
    total = tensor.flatten().clone()
    passing = total.clone()
    for _ in range(size - 1):
        incoming = torch.empty_like(passing)
        exchange(passing, (rank + 1) % size, incoming, (rank - 1) % size, group)
        reduce_into(total, incoming, op)
        passing = incoming
    if op == "mean":
        divide(total, size)
    tensor.copy_(total.view(tensor.shape))
# endregion
