"""Hands tiles of 32 rows by 256 columns to a single warp, whose registers don't hold the running sums alone.

law: fused_kernels.bias_gelu.compiles_for_every_generation
says: spill
"""
        # region solution bias_gelu_backward
        x, bias = ctx.saved_tensors
        x_ND, dy_ND = rows_of(x), rows_of(dy)
        num_rows, dim = x_ND.shape
        dx_ND = torch.empty((num_rows, dim), dtype=x.dtype, device=x.device)
        block_d = min(256, triton.next_power_of_2(dim))
        block_n = 2 * TILE_ELEMENTS // block_d
        num_programs = num_programs_for(num_rows, x.device)
        partial_PD = torch.empty((num_programs, dim), dtype=torch.float32, device=x.device)
        bias_gelu_backward_kernel[(num_programs, triton.cdiv(dim, block_d))](
            dy_ND, x_ND, bias.contiguous(), dx_ND, partial_PD, dy_ND.stride(0), x_ND.stride(0), num_rows, dim,
            BLOCK_N=block_n, BLOCK_D=block_d, num_warps=1,
        )  # fmt: skip
        return dx_ND.view(x.shape), partial_PD.sum(0).to(bias.dtype)
        # endregion
