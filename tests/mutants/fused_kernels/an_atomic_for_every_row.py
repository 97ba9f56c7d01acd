"""Adds every row of dx by atomics to the bias's gradient instead of summing rows in registers first.

law: fused_kernels.bias_gelu.reads_each_tensor_once
says: byte
"""
    # region solution bias_gelu_backward_kernel
    first = tl.program_id(0).to(tl.int64)
    cols = tl.program_id(1) * BLOCK_D + tl.arange(0, BLOCK_D)
    bias = tl.load(bias_ptr + cols, mask=cols < dim, other=0.0).to(tl.float32)[None, :]
    for tile in range(first, tl.cdiv(num_rows, BLOCK_N), tl.num_programs(0)):
        rows = tile * BLOCK_N + tl.arange(0, BLOCK_N)
        mask = (rows[:, None] < num_rows) & (cols[None, :] < dim)
        u = tl.load(x_ptr + rows[:, None] * stride_x + cols[None, :], mask=mask, other=0.0).to(tl.float32) + bias
        dy = tl.load(dy_ptr + rows[:, None] * stride_dy + cols[None, :], mask=mask, other=0.0).to(tl.float32)
        s = tl.sigmoid(1.5957691216057308 * (u + 0.044715 * u * u * u))
        slope = s + u * s * (1.0 - s) * 1.5957691216057308 * (1.0 + 3 * 0.044715 * u * u)
        dx = dy * slope  # 0 beyond the end, since dy is
        tl.store(dx_ptr + rows[:, None] * dim + cols[None, :], dx.to(dx_ptr.dtype.element_ty), mask=mask)
        everywhere = tl.zeros([BLOCK_N, 1], tl.int32)
        tl.atomic_add(partial_ptr + cols[None, :] + everywhere, dx, mask=mask)
    # endregion
        # region solution bias_gelu_backward
        x, bias = ctx.saved_tensors
        x_ND, dy_ND = rows_of(x), rows_of(dy)
        num_rows, dim = x_ND.shape
        dx_ND = torch.empty((num_rows, dim), dtype=x.dtype, device=x.device)
        block_d = min(256, triton.next_power_of_2(dim))
        block_n = max(1, min(8, TILE_ELEMENTS // block_d))
        num_programs = num_programs_for(num_rows, x.device)
        partial_PD = torch.zeros((1, dim), dtype=torch.float32, device=x.device)
        bias_gelu_backward_kernel[(num_programs, triton.cdiv(dim, block_d))](
            dy_ND, x_ND, bias.contiguous(), dx_ND, partial_PD, dy_ND.stride(0), x_ND.stride(0), num_rows, dim,
            BLOCK_N=block_n, BLOCK_D=block_d,
        )  # fmt: skip
        return dx_ND.view(x.shape), partial_PD.sum(0).to(bias.dtype)
        # endregion
