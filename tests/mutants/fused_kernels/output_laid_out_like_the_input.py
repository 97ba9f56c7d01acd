"""Makes the output with empty_like, which takes over a transposed input's strides, and fills it as if it were contiguous.

law: fused_kernels.bias_gelu.any_shape_and_layout
says: not contiguous
"""
        # region solution bias_gelu_forward
        x_ND = rows_of(x)
        num_rows, dim = x_ND.shape
        y = torch.empty_like(x)
        block_d = min(1024, triton.next_power_of_2(dim))
        block_n = TILE_ELEMENTS // 2 // block_d
        bias_gelu_forward_kernel[(triton.cdiv(num_rows, block_n), triton.cdiv(dim, block_d))](
            x_ND, bias.contiguous(), y, x_ND.stride(0), num_rows, dim, BLOCK_N=block_n, BLOCK_D=block_d
        )
        ctx.save_for_backward(x, bias)
        return y
        # endregion
