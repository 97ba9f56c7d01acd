"""Reduces a contiguous copy of the gradient and forgets it: right only where the gradient was contiguous already.

law: pipeline_parallel.tied.gradients_are_added
says: grad
"""
    # region solution all_reduce_tied_gradient
    if weight.grad is None:
        weight.grad = torch.zeros_like(weight, memory_format=torch.contiguous_format)
    dist.all_reduce(weight.grad.contiguous(), group=group)
    # endregion
