"""Writes the gradient over the logits, to need no memory of its own.

law: fused_kernels.cross_entropy.any_vocabulary_and_layout
says: has to stay as it is
"""
        # region solution cross_entropy_backward
        logits_NV, targets_N, lse_N, num_counting = ctx.saved_tensors
        rows_NV = rows_of(logits_NV)
        num_rows, num_classes = rows_NV.shape
        dlogits_NV = rows_NV.detach() if rows_NV.is_contiguous() else rows_NV.contiguous()
        block = min(TILE_ELEMENTS, triton.next_power_of_2(num_classes))
        cross_entropy_backward_kernel[(num_rows, triton.cdiv(num_classes, block))](
            rows_NV, targets_N, lse_N, dloss / num_counting, dlogits_NV, rows_NV.stride(0), targets_N.stride(0), num_classes,
            ctx.ignore_index, BLOCK_V=block, num_warps=warps_for(block),
        )  # fmt: skip
        return dlogits_NV, None, None
        # endregion
