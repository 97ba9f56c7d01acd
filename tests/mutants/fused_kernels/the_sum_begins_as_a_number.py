"""Begins the running sum of a loop as the number 0.0 and goes on with a block: fine in Python, no program for the compiler.

law: fused_kernels.rms_norm.compiles_for_every_generation
says: compile
"""
    # region solution rms_norm_backward_kernel
    first = tl.program_id(0).to(tl.int64)
    offs_d = tl.arange(0, BLOCK_D)
    mask = offs_d < dim
    weight = tl.load(weight_ptr + offs_d, mask=mask, other=0.0).to(tl.float32)
    dweight = 0.0
    for row in range(first, num_rows, tl.num_programs(0)):
        x = tl.load(x_ptr + row * stride_x + offs_d, mask=mask, other=0.0).to(tl.float32)
        dy = tl.load(dy_ptr + row * stride_dy + offs_d, mask=mask, other=0.0).to(tl.float32)
        rstd = tl.load(rstd_ptr + row)
        x_hat = x * rstd
        dx_hat = dy * weight
        # rstd depends on the whole row: that takes away the part of the gradient that points along x.
        along = tl.sum(dx_hat * x_hat, 0) / dim
        tl.store(dx_ptr + row * dim + offs_d, (rstd * (dx_hat - x_hat * along)).to(dx_ptr.dtype.element_ty), mask=mask)
        dweight += dy * x_hat
    # Every program owns a row of partial sums: nobody adds to what another one writes.
    tl.store(partial_ptr + first * dim + offs_d, dweight, mask=mask)
    # endregion
