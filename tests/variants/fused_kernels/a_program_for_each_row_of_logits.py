"""Forward keeps the sum as one number and backward walks over a row in one program, from its end, with maximum and sum instead of lse."""
    # region solution cross_entropy_forward_kernel
    row = tl.program_id(0).to(tl.int64)
    start = row * stride_logits
    offs_v = tl.arange(0, BLOCK_V)
    target = tl.load(targets_ptr + row * stride_targets)
    # A finite beginning below all logits: exp of -inf less that is 0.
    largest = -1.0e30
    total = 0.0
    picked = 0.0
    for first_v in range(0, num_classes, BLOCK_V):
        classes = first_v + offs_v
        logits = tl.load(logits_ptr + start + classes, mask=classes < num_classes, other=-float("inf")).to(tl.float32)
        above = tl.maximum(largest, tl.max(logits, 0))
        total = total * tl.exp(largest - above) + tl.sum(tl.exp(logits - above), 0)
        picked += tl.sum(tl.where(classes == target, logits, 0.0), 0)
        largest = above
    if target == ignore_index:
        tl.store(loss_ptr + row, 0.0)
    else:
        tl.store(loss_ptr + row, tl.log(total) + (largest - picked))
    # Two numbers for each row: the maximum, and the sum over it.
    tl.store(lse_ptr + 2 * row, largest)
    tl.store(lse_ptr + 2 * row + 1, total)
    # endregion
    # region solution cross_entropy_backward_kernel
    row = tl.program_id(0).to(tl.int64)
    offs_v = tl.arange(0, BLOCK_V)
    target = tl.load(targets_ptr + row * stride_targets)
    is_ignored = target == ignore_index
    largest = tl.load(lse_ptr + 2 * row)
    share = 1.0 / tl.load(lse_ptr + 2 * row + 1)
    scale = tl.load(scale_ptr)
    num_blocks = tl.cdiv(num_classes, BLOCK_V)
    for number in range(0, num_blocks):
        classes = (num_blocks - 1 - number) * BLOCK_V + offs_v
        logits = tl.load(logits_ptr + row * stride_logits + classes, mask=classes < num_classes, other=0.0).to(tl.float32)
        gradient = tl.exp(logits - largest) * share
        gradient = tl.where(classes == target, gradient - 1.0, gradient) * scale
        gradient = tl.where(is_ignored, 0.0, gradient)
        tl.store(dlogits_ptr + row * num_classes + classes, gradient.to(dlogits_ptr.dtype.element_ty), mask=classes < num_classes)
    # endregion
        # region solution cross_entropy_forward
        rows_NV = rows_of(logits_NV)
        num_rows, num_classes = rows_NV.shape
        loss_N = torch.empty(num_rows, dtype=torch.float32, device=logits_NV.device)
        lse_N = torch.empty((num_rows, 2), dtype=torch.float32, device=logits_NV.device)
        block = min(TILE_ELEMENTS, triton.next_power_of_2(num_classes))
        cross_entropy_forward_kernel[(num_rows,)](
            rows_NV, targets_N, loss_N, lse_N, rows_NV.stride(0), targets_N.stride(0), num_classes, ignore_index,
            BLOCK_V=block, num_warps=warps_for(block),
        )  # fmt: skip
        num_counting = torch.maximum((targets_N != ignore_index).float().sum(), torch.ones((), device=logits_NV.device))
        ctx.save_for_backward(logits_NV, targets_N, lse_N, num_counting)
        ctx.ignore_index = ignore_index
        return loss_N.sum() / num_counting
        # endregion
        # region solution cross_entropy_backward
        logits_NV, targets_N, lse_N, num_counting = ctx.saved_tensors
        rows_NV = rows_of(logits_NV)
        num_rows, num_classes = rows_NV.shape
        dlogits_NV = torch.empty((num_rows, num_classes), dtype=logits_NV.dtype, device=logits_NV.device)
        block = min(TILE_ELEMENTS // 2, triton.next_power_of_2(num_classes))
        cross_entropy_backward_kernel[(num_rows,)](
            rows_NV, targets_N, lse_N, dloss / num_counting, dlogits_NV, rows_NV.stride(0), targets_N.stride(0), num_classes,
            ctx.ignore_index, BLOCK_V=block, num_warps=warps_for(block),
        )  # fmt: skip
        return dlogits_NV, None, None
        # endregion
