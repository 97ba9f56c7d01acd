"""Tiles of one row and all columns in the forward pass, runs of neighbouring rows in the backward pass, and the sigmoid written out."""
    # region solution bias_gelu_forward_kernel
    # A program for each row; BLOCK_N is 1.
    row = tl.program_id(0).to(tl.int64)
    cols = tl.arange(0, BLOCK_D)
    x = tl.load(x_ptr + row * stride_x + cols, mask=cols < dim, other=0.0).to(tl.float32)
    u = x + tl.load(bias_ptr + cols, mask=cols < dim, other=0.0).to(tl.float32)
    # exp overflows to infinity where the sigmoid is 0, and 1/inf is 0.
    y = u / (1.0 + tl.exp(-1.5957691216057308 * u * (1.0 + 0.044715 * u * u)))
    tl.store(y_ptr + row * dim + cols, y.to(y_ptr.dtype.element_ty), mask=cols < dim)
    # endregion
    # region solution bias_gelu_backward_kernel
    # A program has BLOCK_N neighbouring rows, all columns, and one of them after the other.
    first = tl.program_id(0).to(tl.int64) * BLOCK_N
    cols = tl.arange(0, BLOCK_D)
    bias = tl.load(bias_ptr + cols, mask=cols < dim, other=0.0).to(tl.float32)
    total = tl.zeros([BLOCK_D], tl.float32)
    for row in range(first, tl.minimum(first + BLOCK_N, num_rows)):
        dy = tl.load(dy_ptr + row * stride_dy + cols, mask=cols < dim, other=0.0).to(tl.float32)
        u = bias + tl.load(x_ptr + row * stride_x + cols, mask=cols < dim, other=0.0).to(tl.float32)
        s = 1.0 / (1.0 + tl.exp(-1.5957691216057308 * u * (1.0 + 0.044715 * u * u)))
        dx = dy * s * (1.0 + u * (1.0 - s) * 1.5957691216057308 * (1.0 + 0.134145 * u * u))
        tl.store(dx_ptr + row * dim + cols, dx.to(dx_ptr.dtype.element_ty), mask=cols < dim)
        total += dx
    tl.store(partial_ptr + tl.program_id(0).to(tl.int64) * dim + cols, total, mask=cols < dim)
    # endregion
        # region solution bias_gelu_forward
        x_ND = rows_of(x)
        y = torch.empty(x.shape, dtype=x.dtype, device=x.device)
        block = triton.next_power_of_2(x_ND.shape[1])
        bias_gelu_forward_kernel[(x_ND.shape[0],)](
            x_ND, bias.contiguous(), y, x_ND.stride(0), x_ND.shape[0], x_ND.shape[1], BLOCK_N=1, BLOCK_D=block, num_warps=warps_for(block)
        )
        ctx.save_for_backward(x, bias)
        return y
        # endregion
        # region solution bias_gelu_backward
        x, bias = ctx.saved_tensors
        x_ND, dy_ND = rows_of(x), rows_of(dy)
        num_rows, dim = x_ND.shape
        dx = torch.empty(x.shape, dtype=x.dtype, device=x.device)
        num_programs = triton.cdiv(num_rows, 16)
        partial_PD = torch.empty((num_programs, dim), dtype=torch.float32, device=x.device)
        block = triton.next_power_of_2(dim)
        bias_gelu_backward_kernel[(num_programs,)](
            dy_ND, x_ND, bias.contiguous(), dx, partial_PD, dy_ND.stride(0), x_ND.stride(0), num_rows, dim,
            BLOCK_N=16, BLOCK_D=block, num_warps=warps_for(block),
        )
        return dx, partial_PD.sum(0).to(bias.dtype)
        # endregion
