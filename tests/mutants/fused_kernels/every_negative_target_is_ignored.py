"""Ignores negative targets instead of those that equal ignore_index.

law: fused_kernels.cross_entropy.ignored_targets_count_nowhere
says: what is negative
"""
    # region solution cross_entropy_forward_kernel
    row = tl.program_id(0).to(tl.int64)
    target = tl.load(targets_ptr + row * stride_targets)
    counts = target >= 0
    logits_ptr += row * stride_logits
    offs_v = tl.arange(0, BLOCK_V)

    # The softmax's running maximum and sum; the sum stays spread over the lanes until the end.
    largest = -float("inf")
    total = tl.zeros([BLOCK_V], tl.float32)
    for first_v in range(0, tl.where(counts, num_classes, 0), BLOCK_V):  # a row that doesn't count isn't even read
        logits = tl.load(logits_ptr + first_v + offs_v, mask=first_v + offs_v < num_classes, other=-float("inf")).to(tl.float32)
        new_largest = tl.maximum(largest, tl.max(logits, 0))
        origin = tl.where(new_largest == -float("inf"), 0.0, new_largest)  # nothing but -inf so far: -inf - -inf would be NaN
        total = total * tl.exp(largest - origin) + tl.exp(logits - origin)
        largest = new_largest
    lse = tl.where(counts, largest + tl.log(tl.sum(total, 0)), 0.0)
    logit = tl.load(logits_ptr + target, mask=counts, other=0.0).to(tl.float32)
    tl.store(loss_ptr + row, tl.where(counts, lse - logit, 0.0))
    tl.store(lse_ptr + row, lse)
    # endregion
    # region solution cross_entropy_backward_kernel
    row = tl.program_id(0).to(tl.int64)
    target = tl.load(targets_ptr + row * stride_targets)
    counts = target >= 0
    for first_v in range(0, num_classes, BLOCK_V):
        offs_v = first_v + tl.arange(0, BLOCK_V)
        in_row = offs_v < num_classes
        logits = tl.load(logits_ptr + row * stride_logits + offs_v, mask=in_row & counts, other=-float("inf")).to(tl.float32)
        softmax = tl.exp(logits - tl.load(lse_ptr + row))
        gradient = (softmax - tl.where(offs_v == target, 1.0, 0.0)) * tl.load(scale_ptr)
        gradient = tl.where(counts, gradient, 0.0)  # chosen, not multiplied by 0: an ignored row may hold anything
        tl.store(dlogits_ptr + row * num_classes + offs_v, gradient.to(dlogits_ptr.dtype.element_ty), mask=in_row)
    # endregion
        # region solution cross_entropy_forward
        rows_NV = rows_of(logits_NV)
        num_rows, num_classes = rows_NV.shape
        loss_N = torch.empty(num_rows, dtype=torch.float32, device=logits_NV.device)
        lse_N = torch.empty_like(loss_N)
        block = min(2 * TILE_ELEMENTS, triton.next_power_of_2(num_classes))
        cross_entropy_forward_kernel[(num_rows,)](
            rows_NV, targets_N, loss_N, lse_N, rows_NV.stride(0), targets_N.stride(0), num_classes, ignore_index,
            BLOCK_V=block, num_warps=warps_for(block),
        )  # fmt: skip
        # How many count stays a tensor: asking for the number would make the host wait for the GPU.
        num_counting = (targets_N >= 0).sum().clamp(min=1)
        ctx.save_for_backward(logits_NV, targets_N, lse_N, num_counting)
        ctx.ignore_index = ignore_index
        return loss_N.sum() / num_counting
        # endregion
