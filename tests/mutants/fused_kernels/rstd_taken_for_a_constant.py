"""Leaves out that rstd depends on every number of the row.

law: fused_kernels.rms_norm.gradients_are_exact
says: constant
"""
    # region solution rms_norm_backward_kernel
    first = tl.program_id(0).to(tl.int64)
    offs_d = tl.arange(0, BLOCK_D)
    mask = offs_d < dim
    weight = tl.load(weight_ptr + offs_d, mask=mask, other=0.0).to(tl.float32)
    dweight = tl.zeros([BLOCK_D], tl.float32)
    for place in range(0, tl.cdiv(num_rows - first, tl.num_programs(0))):
        row = first + place * tl.num_programs(0)  # 64 bits, as `first` has
        x = tl.load(x_ptr + row * stride_x + offs_d, mask=mask, other=0.0).to(tl.float32)
        dy = tl.load(dy_ptr + row * stride_dy + offs_d, mask=mask, other=0.0).to(tl.float32)
        rstd = tl.load(rstd_ptr + row)
        x_hat = x * rstd
        dx_hat = dy * weight
        tl.store(dx_ptr + row * dim + offs_d, (rstd * dx_hat).to(dx_ptr.dtype.element_ty), mask=mask)
        dweight += dy * x_hat
    tl.store(partial_ptr + first * dim + offs_d, dweight, mask=mask)
    # endregion
