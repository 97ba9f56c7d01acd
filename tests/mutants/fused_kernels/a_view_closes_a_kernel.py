"""Closes the open kernel at a view.

law: fused_kernels.compile.says_what_is_fused
says: A view closes
"""
    # region solution predicted_kernels
    kernels: list[list[str]] = []
    is_open, reduced_dim = False, None  # whether the last kernel takes more, and over which dim it reduces
    for op in chain:
        if op.kind in ("view", "break"):
            is_open = False
            continue
        fits = is_open and op.kind != "matmul" and (op.kind != "reduction" or reduced_dim in (None, op.dim))
        if not fits:
            kernels.append([])
            reduced_dim = None
        kernels[-1].append(op.name)
        is_open = op.kind != "matmul"  # the library's product is a kernel of its own
        if op.kind == "reduction":
            reduced_dim = op.dim
    return kernels
    # endregion
