"""Squares in x's dtype and widens the squares: in float16 300² is infinite and 0.0001² is nothing.

law: fused_kernels.rms_norm.squares_stay_finite
says: squares in x's dtype
"""
    # region solution rms_norm_forward_kernel
    row = tl.program_id(0).to(tl.int64)  # N · D may be more than 2**31
    offs_d = tl.arange(0, BLOCK_D)
    mask = offs_d < dim
    # Lanes beyond the row hold 0 and add nothing to the sum of squares; the mean divides by dim, not by BLOCK_D.
    x = tl.load(x_ptr + row * stride_x + offs_d, mask=mask, other=0.0)
    rstd = 1.0 / tl.sqrt(tl.sum((x * x).to(tl.float32), 0) / dim + eps)
    weight = tl.load(weight_ptr + offs_d, mask=mask, other=0.0).to(tl.float32)
    tl.store(y_ptr + row * dim + offs_d, (x.to(tl.float32) * rstd * weight).to(y_ptr.dtype.element_ty), mask=mask)
    tl.store(rstd_ptr + row, rstd)
    # endregion
