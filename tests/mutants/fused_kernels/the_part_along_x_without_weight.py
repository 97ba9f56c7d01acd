"""Forgets the weight in the mean of the backward pass, right where all weights are 1.

law: fused_kernels.rms_norm.gradients_are_exact
says: weight left out of the mean
"""
    # region solution rms_norm_backward_kernel
    first = tl.program_id(0).to(tl.int64)
    offs_d = tl.arange(0, BLOCK_D)
    mask = offs_d < dim
    weight = tl.load(weight_ptr + offs_d, mask=mask, other=0.0).to(tl.float32)
    dweight = tl.zeros([BLOCK_D], tl.float32)
    for row in range(first, num_rows, tl.num_programs(0)):
        x = tl.load(x_ptr + row * stride_x + offs_d, mask=mask, other=0.0).to(tl.float32)
        dy = tl.load(dy_ptr + row * stride_dy + offs_d, mask=mask, other=0.0).to(tl.float32)
        rstd = tl.load(rstd_ptr + row)
        x_hat = x * rstd
        dx_hat = dy * weight
        # rstd depends on the whole row: that takes away the part of the gradient that points along x.
        along = tl.sum(dy * x_hat, 0) / dim
        tl.store(dx_ptr + row * dim + offs_d, (rstd * (dx_hat - x_hat * along)).to(dx_ptr.dtype.element_ty), mask=mask)
        dweight += dy * x_hat
    # Every program owns a row of partial sums: nobody adds to what another one writes.
    tl.store(partial_ptr + first * dim + offs_d, dweight, mask=mask)
    # endregion
