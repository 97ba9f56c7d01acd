"""Asks the device how many targets count, and divides by that number.

law: fused_kernels.cross_entropy.keeps_only_its_inputs
says: the host would wait
"""
        # region solution cross_entropy_forward
        rows_NV = rows_of(logits_NV)
        num_rows, num_classes = rows_NV.shape
        loss_N = torch.empty(num_rows, dtype=torch.float32, device=logits_NV.device)
        lse_N = torch.empty_like(loss_N)
        block = min(TILE_ELEMENTS // 2, triton.next_power_of_2(num_classes))
        cross_entropy_forward_kernel[(num_rows,)](
            rows_NV, targets_N, loss_N, lse_N, rows_NV.stride(0), targets_N.stride(0), num_classes, ignore_index,
            BLOCK_V=block, num_warps=warps_for(block),
        )  # fmt: skip
        num_counting = torch.tensor(max(1, int((targets_N != ignore_index).sum())), device=logits_NV.device)
        ctx.save_for_backward(logits_NV, targets_N, lse_N, num_counting)
        ctx.ignore_index = ignore_index
        return loss_N.sum() / num_counting
        # endregion
