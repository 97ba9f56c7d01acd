"""Leaves the row number a 32-bit integer, so that its product with the stride wraps around for rows that lie far apart.

law: fused_kernels.rms_norm.any_layout
says: rms_norm
"""
    # region solution rms_norm_forward_kernel
    row = tl.program_id(0)
    offs_d = tl.arange(0, BLOCK_D)
    mask = offs_d < dim
    # Lanes beyond the row hold 0 and add nothing to the sum of squares; the mean divides by dim, not by BLOCK_D.
    x = tl.load(x_ptr + row * stride_x + offs_d, mask=mask, other=0.0).to(tl.float32)
    rstd = 1.0 / tl.sqrt(tl.sum(x * x, 0) / dim + eps)
    weight = tl.load(weight_ptr + offs_d, mask=mask, other=0.0).to(tl.float32)
    tl.store(y_ptr + row * dim + offs_d, (x * rstd * weight).to(y_ptr.dtype.element_ty), mask=mask)
    tl.store(rstd_ptr + row, rstd)
    # endregion
