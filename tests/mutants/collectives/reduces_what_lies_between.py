"""Takes the stretch of memory from the first to the last element, with all that lies between them.

law: collectives.ring.changes_only_what_it_must
says: between
"""
# region solution ring_all_reduce
    span = sum((n - 1) * stride for n, stride in zip(tensor.shape, tensor.stride())) + 1 if tensor.numel() > 0 else 0
    flat = tensor.as_strided((span,), (1,))
    chunk = ring_reduce_scatter(flat, op, group)
    flat.copy_(ring_all_gather(chunk, span, group))
# endregion
