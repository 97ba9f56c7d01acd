"""Sums dx for the bias after it was rounded to x's dtype.

law: fused_kernels.bias_gelu.gradients_are_exact
says: dx before it is rounded
"""
    # region solution bias_gelu_backward_kernel
    first = tl.program_id(0).to(tl.int64)
    cols = tl.program_id(1) * BLOCK_D + tl.arange(0, BLOCK_D)
    bias = tl.load(bias_ptr + cols, mask=cols < dim, other=0.0).to(tl.float32)[None, :]
    dbias = tl.zeros([BLOCK_N, BLOCK_D], tl.float32)
    for tile in range(first, tl.cdiv(num_rows, BLOCK_N), tl.num_programs(0)):
        rows = tile * BLOCK_N + tl.arange(0, BLOCK_N)
        mask = (rows[:, None] < num_rows) & (cols[None, :] < dim)
        u = tl.load(x_ptr + rows[:, None] * stride_x + cols[None, :], mask=mask, other=0.0).to(tl.float32) + bias
        dy = tl.load(dy_ptr + rows[:, None] * stride_dy + cols[None, :], mask=mask, other=0.0).to(tl.float32)
        s = tl.sigmoid(1.5957691216057308 * (u + 0.044715 * u * u * u))
        slope = s + u * s * (1.0 - s) * 1.5957691216057308 * (1.0 + 3 * 0.044715 * u * u)
        dx = (dy * slope).to(dx_ptr.dtype.element_ty)
        tl.store(dx_ptr + rows[:, None] * dim + cols[None, :], dx, mask=mask)
        dbias += dx.to(tl.float32)
    tl.store(partial_ptr + first * dim + cols, tl.sum(dbias, 0), mask=cols < dim)
    # endregion
