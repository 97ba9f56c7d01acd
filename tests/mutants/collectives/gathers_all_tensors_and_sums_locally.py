"""Passes whole tensors round the ring until everyone has all, and sums them in the order of the ranks.

law: collectives.ring.sends_the_optimal_volume
says: times
"""
# region solution ring_all_reduce
    size, rank = dist.get_world_size(group), dist.get_rank(group)
    everybody = [torch.empty_like(tensor, memory_format=torch.contiguous_format) for _ in range(size)]
    everybody[rank].copy_(tensor)
    for step in range(size - 1):
        exchange(everybody[(rank - step) % size], (rank + 1) % size, everybody[(rank - step - 1) % size], (rank - 1) % size, group)
    total = everybody[0]
    for other in everybody[1:]:
        reduce_into(total, other, op)
    if op == "mean":
        divide(total, size)
    tensor.copy_(total)
# endregion
