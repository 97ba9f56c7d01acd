"""Writes into tensor.reshape(-1), which is a copy where the tensor is not contiguous.

law: collectives.ring.changes_only_what_it_must
says: contiguous
"""
# region solution ring_all_reduce
    flat = tensor.reshape(-1)
    chunk = ring_reduce_scatter(flat, op, group)
    flat.copy_(ring_all_gather(chunk, flat.numel(), group))
# endregion
