"""Writes tanh as a quotient of exponentials, which is ∞/∞ for large values.

law: fused_kernels.bias_gelu.output_is_gelu
says: quotient of exponentials
"""
    # region solution bias_gelu_forward_kernel
    rows = tl.program_id(0).to(tl.int64) * BLOCK_N + tl.arange(0, BLOCK_N)
    cols = tl.program_id(1) * BLOCK_D + tl.arange(0, BLOCK_D)
    mask = (rows[:, None] < num_rows) & (cols[None, :] < dim)
    x = tl.load(x_ptr + rows[:, None] * stride_x + cols[None, :], mask=mask, other=0.0).to(tl.float32)
    u = x + tl.load(bias_ptr + cols, mask=cols < dim, other=0.0).to(tl.float32)[None, :]
    e = tl.exp(1.5957691216057308 * (u + 0.044715 * u * u * u))
    y = 0.5 * u * (1.0 + (e - 1.0) / (e + 1.0))
    tl.store(y_ptr + rows[:, None] * dim + cols[None, :], y.to(y_ptr.dtype.element_ty), mask=mask)
    # endregion
