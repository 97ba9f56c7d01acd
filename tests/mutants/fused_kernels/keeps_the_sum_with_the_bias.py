"""Keeps x + bias for backward beside x, to save an addition.

law: fused_kernels.bias_gelu.keeps_only_its_inputs
says: keep
"""
        # region solution bias_gelu_forward
        x_ND = rows_of(x)
        num_rows, dim = x_ND.shape
        y_ND = torch.empty((num_rows, dim), dtype=x.dtype, device=x.device)
        block_d = min(1024, triton.next_power_of_2(dim))
        block_n = TILE_ELEMENTS // 2 // block_d
        bias_gelu_forward_kernel[(triton.cdiv(num_rows, block_n), triton.cdiv(dim, block_d))](
            x_ND, bias.contiguous(), y_ND, x_ND.stride(0), num_rows, dim, BLOCK_N=block_n, BLOCK_D=block_d
        )
        ctx.save_for_backward(x, bias, x_ND.float() + bias.float())
        return y_ND.view(x.shape)
        # endregion
        # region solution bias_gelu_backward
        x, bias, u_ND = ctx.saved_tensors
        x_ND, dy_ND = u_ND, rows_of(dy)
        num_rows, dim = x_ND.shape
        dx_ND = torch.empty((num_rows, dim), dtype=x.dtype, device=x.device)
        none = torch.zeros(dim, dtype=torch.float32, device=x.device)  # the bias is in u already
        block_d = min(256, triton.next_power_of_2(dim))
        block_n = max(1, min(8, TILE_ELEMENTS // block_d))
        num_programs = num_programs_for(num_rows, x.device)
        partial_PD = torch.empty((num_programs, dim), dtype=torch.float32, device=x.device)
        bias_gelu_backward_kernel[(num_programs, triton.cdiv(dim, block_d))](
            dy_ND, x_ND, none, dx_ND, partial_PD, dy_ND.stride(0), x_ND.stride(0), num_rows, dim,
            BLOCK_N=block_n, BLOCK_D=block_d,
        )  # fmt: skip
        return dx_ND.view(x.shape), partial_PD.sum(0).to(bias.dtype)
        # endregion
