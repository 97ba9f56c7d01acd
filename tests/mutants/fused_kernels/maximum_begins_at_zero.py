"""Begins the running maximum at 0: with nothing but very negative logits the sum vanishes.

law: fused_kernels.cross_entropy.large_logits_stay_finite
says: begins at 0
"""
    # region solution cross_entropy_forward_kernel
    row = tl.program_id(0).to(tl.int64)
    target = tl.load(targets_ptr + row * stride_targets)
    counts = target != ignore_index
    logits_ptr += row * stride_logits
    offs_v = tl.arange(0, BLOCK_V)

    # The softmax's running maximum and sum; the sum stays spread over the lanes until the end.
    largest = 0.0
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
