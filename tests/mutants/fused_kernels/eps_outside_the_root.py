"""Adds eps to the root of the mean square, not to the mean square.

law: fused_kernels.rms_norm.output_is_normalised
says: outside the root
"""
    # region solution rms_norm_forward_kernel
    row = tl.program_id(0).to(tl.int64)  # N · D may be more than 2**31
    offs_d = tl.arange(0, BLOCK_D)
    mask = offs_d < dim
    x = tl.load(x_ptr + row * stride_x + offs_d, mask=mask, other=0.0).to(tl.float32)
    rstd = 1.0 / (tl.sqrt(tl.sum(x * x, 0) / dim) + eps)
    weight = tl.load(weight_ptr + offs_d, mask=mask, other=0.0).to(tl.float32)
    tl.store(y_ptr + row * dim + offs_d, (x * rstd * weight).to(y_ptr.dtype.element_ty), mask=mask)
    tl.store(rstd_ptr + row, rstd)
    # endregion
