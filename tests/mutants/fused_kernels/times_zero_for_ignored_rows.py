"""Multiplies the gradient of ignored rows by 0, which leaves NaN where their logits hold it.

law: fused_kernels.cross_entropy.ignored_targets_count_nowhere
says: 0 times what ignored rows hold
"""
    # region solution cross_entropy_backward_kernel
    row = tl.program_id(0).to(tl.int64)
    target = tl.load(targets_ptr + row * stride_targets)
    counts = target != ignore_index
    for first_v in range(0, num_classes, BLOCK_V):
        offs_v = first_v + tl.arange(0, BLOCK_V)
        in_row = offs_v < num_classes
        logits = tl.load(logits_ptr + row * stride_logits + offs_v, mask=in_row, other=-float("inf")).to(tl.float32)
        softmax = tl.exp(logits - tl.load(lse_ptr + row))
        gradient = (softmax - tl.where(offs_v == target, 1.0, 0.0)) * tl.load(scale_ptr)
        gradient = gradient * counts.to(tl.float32)
        tl.store(dlogits_ptr + row * num_classes + offs_v, gradient.to(dlogits_ptr.dtype.element_ty), mask=in_row)
    # endregion
