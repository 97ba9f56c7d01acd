"""Writes the output over x where x is contiguous, to save memory, and keeps a copy of x for backward.

law: fused_kernels.bias_gelu.any_shape_and_layout
says: input
"""
        # region solution bias_gelu_forward
        x_ND = rows_of(x)
        num_rows, dim = x_ND.shape
        kept = x.clone()
        y_ND = x_ND if x_ND.is_contiguous() else torch.empty((num_rows, dim), dtype=x.dtype, device=x.device)
        block_d = min(1024, triton.next_power_of_2(dim))
        block_n = TILE_ELEMENTS // 2 // block_d
        bias_gelu_forward_kernel[(triton.cdiv(num_rows, block_n), triton.cdiv(dim, block_d))](
            x_ND, bias.contiguous(), y_ND, x_ND.stride(0), num_rows, dim, BLOCK_N=block_n, BLOCK_D=block_d
        )
        ctx.save_for_backward(kept, bias)
        return y_ND.detach().view(x.shape)
        # endregion
