"""Compares the target with the place in the block instead of the class.

law: fused_kernels.cross_entropy.gradients_are_exact
says: place in a block
"""
    # region solution cross_entropy_backward_kernel
    row = tl.program_id(0).to(tl.int64)
    target = tl.load(targets_ptr + row * stride_targets)
    counts = target != ignore_index
    for first_v in range(0, num_classes, BLOCK_V):
        offs_v = first_v + tl.arange(0, BLOCK_V)
        in_row = offs_v < num_classes
        logits = tl.load(logits_ptr + row * stride_logits + offs_v, mask=in_row & counts, other=-float("inf")).to(tl.float32)
        softmax = tl.exp(logits - tl.load(lse_ptr + row))
        gradient = (softmax - tl.where(tl.arange(0, BLOCK_V) == target, 1.0, 0.0)) * tl.load(scale_ptr)
        gradient = tl.where(counts, gradient, 0.0)  # chosen, not multiplied by 0: an ignored row may hold anything
        tl.store(dlogits_ptr + row * num_classes + offs_v, gradient.to(dlogits_ptr.dtype.element_ty), mask=in_row)
    # endregion
