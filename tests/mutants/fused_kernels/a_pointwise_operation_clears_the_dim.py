"""Remembers the last operation's dim, which a pointwise one has none of: a reduction over another dim joins.

law: fused_kernels.compile.says_what_is_fused
says: Too much is put together
"""
    # region solution predicted_kernels
    kernels: list[list[str]] = []
    is_open, reduced_dim = False, None
    for op in chain:
        if op.kind == "view":
            continue
        if op.kind == "break":
            is_open = False
            continue
        fits = is_open and op.kind != "matmul" and (op.kind != "reduction" or reduced_dim in (None, op.dim))
        if not fits:
            kernels.append([])
        kernels[-1].append(op.name)
        is_open = op.kind != "matmul"
        reduced_dim = op.dim
    return kernels
    # endregion
