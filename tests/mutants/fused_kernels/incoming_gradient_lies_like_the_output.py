"""Takes the incoming gradient for contiguous, since the output was.

law: fused_kernels.rms_norm.any_layout
says: incoming gradient read as if it were contiguous
"""
        # region solution rms_norm_backward
        x, weight, rstd_N = ctx.saved_tensors
        x_ND, dy_ND = rows_of(x), rows_of(dy)
        num_rows, dim = x_ND.shape
        dx_ND = torch.empty((num_rows, dim), dtype=x.dtype, device=x.device)
        num_programs = num_programs_for(num_rows, x.device)
        partial_PD = torch.empty((num_programs, dim), dtype=torch.float32, device=x.device)
        block = triton.next_power_of_2(dim)
        rms_norm_backward_kernel[(num_programs,)](
            dy_ND, x_ND, weight.contiguous(), rstd_N, dx_ND, partial_PD, dim, x_ND.stride(0), num_rows, dim,
            BLOCK_D=block, num_warps=warps_for(block),
        )  # fmt: skip
        return dx_ND.view(x.shape), partial_PD.sum(0).to(weight.dtype), None
        # endregion
