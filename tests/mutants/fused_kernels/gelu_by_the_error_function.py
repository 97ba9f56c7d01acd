"""Computes the exact GELU, by erf, instead of the tanh form.

law: fused_kernels.bias_gelu.output_is_gelu
says: erf
"""
    # region solution bias_gelu_forward_kernel
    rows = tl.program_id(0).to(tl.int64) * BLOCK_N + tl.arange(0, BLOCK_N)
    cols = tl.program_id(1) * BLOCK_D + tl.arange(0, BLOCK_D)
    mask = (rows[:, None] < num_rows) & (cols[None, :] < dim)
    x = tl.load(x_ptr + rows[:, None] * stride_x + cols[None, :], mask=mask, other=0.0).to(tl.float32)
    u = x + tl.load(bias_ptr + cols, mask=cols < dim, other=0.0).to(tl.float32)[None, :]
    y = 0.5 * u * (1.0 + tl.erf(u * 0.7071067811865476))
    tl.store(y_ptr + rows[:, None] * dim + cols[None, :], y.to(y_ptr.dtype.element_ty), mask=mask)
    # endregion
