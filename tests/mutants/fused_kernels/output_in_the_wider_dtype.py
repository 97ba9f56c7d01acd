"""Returns y in the dtype to which x and weight promote: float32 for half-precision x with float32 weights.

law: fused_kernels.rms_norm.output_is_normalised
says: float32
"""
        # region solution rms_norm_forward
        x_ND = rows_of(x)
        num_rows, dim = x_ND.shape
        y_ND = torch.empty((num_rows, dim), dtype=torch.promote_types(x.dtype, weight.dtype), device=x.device)
        rstd_N = torch.empty(num_rows, dtype=torch.float32, device=x.device)
        block = triton.next_power_of_2(dim)
        rms_norm_forward_kernel[(num_rows,)](
            x_ND, weight.contiguous(), y_ND, rstd_N, x_ND.stride(0), dim, eps, BLOCK_D=block, num_warps=warps_for(block)
        )
        ctx.save_for_backward(x, weight, rstd_N)
        return y_ND.view(x.shape)
        # endregion
