"""Lets all programs load, add to and store the one row of the weight's gradient.

law: fused_kernels.rms_norm.no_two_programs_race
says: race
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
        along = tl.sum(dx_hat * x_hat, 0) / dim
        tl.store(dx_ptr + row * dim + offs_d, (rstd * (dx_hat - x_hat * along)).to(dx_ptr.dtype.element_ty), mask=mask)
        dweight += dy * x_hat
    so_far = tl.load(partial_ptr + offs_d, mask=mask, other=0.0)
    tl.store(partial_ptr + offs_d, so_far + dweight, mask=mask)
    # endregion
        # region solution rms_norm_backward
        x, weight, rstd_N = ctx.saved_tensors
        x_ND, dy_ND = rows_of(x), rows_of(dy)
        num_rows, dim = x_ND.shape
        dx_ND = torch.empty((num_rows, dim), dtype=x.dtype, device=x.device)
        num_programs = num_programs_for(num_rows, x.device)
        partial_PD = torch.zeros((1, dim), dtype=torch.float32, device=x.device)
        block = triton.next_power_of_2(dim)
        rms_norm_backward_kernel[(num_programs,)](
            dy_ND, x_ND, weight.contiguous(), rstd_N, dx_ND, partial_PD, dy_ND.stride(0), x_ND.stride(0), num_rows, dim,
            BLOCK_D=block, num_warps=warps_for(block),
        )  # fmt: skip
        return dx_ND.view(x.shape), partial_PD.sum(0).to(weight.dtype), None
        # endregion
