"""Sums bfloat16 and float16 in float32 and sends that, twice the bytes.

law: collectives.ring.sends_the_optimal_volume
says: bytes
"""
# region solution ring_reduce_scatter
    size, rank = dist.get_world_size(group), dist.get_rank(group)
    right, left = (rank + 1) % size, (rank - 1) % size
    flat = tensor.flatten().clone()
    chunks = (flat.float() if flat.is_floating_point() and flat.element_size() == 2 else flat).tensor_split(size)
    for step in range(size - 1):
        outgoing = chunks[(rank - step - 1) % size]
        own = chunks[(rank - step - 2) % size]
        incoming = torch.empty_like(own)
        exchange(outgoing, right, incoming, left, group)
        reduce_into(own, incoming, op)
    total = chunks[rank].clone()
    if op == "mean":
        divide(total, size)
    return total.to(tensor.dtype)
# endregion
