"""The gradients of weight and bias are float32 rows of zeros to which every program adds its sum once, by atomics."""
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
    tl.atomic_add(partial_ptr + offs_d, dweight, mask=mask)
    # endregion
        # region solution rms_norm_backward
        x, weight, rstd_N = ctx.saved_tensors
        x_ND, dy_ND = rows_of(x), rows_of(dy)
        num_rows, dim = x_ND.shape
        dx_ND = torch.empty((num_rows, dim), dtype=x.dtype, device=x.device)
        num_programs = num_programs_for(num_rows, x.device)
        dweight_D = torch.zeros(dim, dtype=torch.float32, device=x.device)
        block = triton.next_power_of_2(dim)
        rms_norm_backward_kernel[(num_programs,)](
            dy_ND, x_ND, weight.contiguous(), rstd_N, dx_ND, dweight_D, dy_ND.stride(0), x_ND.stride(0), num_rows, dim,
            BLOCK_D=block, num_warps=warps_for(block),
        )  # fmt: skip
        return dx_ND.view(x.shape), dweight_D.to(weight.dtype), None
        # endregion
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
        dx = dy * slope  # 0 beyond the end, since dy is
        tl.store(dx_ptr + rows[:, None] * dim + cols[None, :], dx.to(dx_ptr.dtype.element_ty), mask=mask)
        dbias += dx
    tl.atomic_add(partial_ptr + cols, tl.sum(dbias, 0), mask=cols < dim)
    # endregion
        # region solution bias_gelu_backward
        x, bias = ctx.saved_tensors
        x_ND, dy_ND = rows_of(x), rows_of(dy)
        num_rows, dim = x_ND.shape
        dx_ND = torch.empty((num_rows, dim), dtype=x.dtype, device=x.device)
        block_d = min(256, triton.next_power_of_2(dim))
        block_n = max(1, min(8, TILE_ELEMENTS // block_d))
        num_programs = num_programs_for(num_rows, x.device)
        dbias_D = torch.zeros(dim, dtype=torch.float32, device=x.device)
        bias_gelu_backward_kernel[(num_programs, triton.cdiv(dim, block_d))](
            dy_ND, x_ND, bias.contiguous(), dx_ND, dbias_D, dy_ND.stride(0), x_ND.stride(0), num_rows, dim,
            BLOCK_N=block_n, BLOCK_D=block_d,
        )  # fmt: skip
        return dx_ND.view(x.shape), dbias_D.to(bias.dtype)
        # endregion
