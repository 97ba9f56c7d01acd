"""Clones the gradient before it is reduced; a clone keeps the strides.

law: pipeline_parallel.tied.gradients_are_added
says: not contiguous
"""
    # region solution all_reduce_tied_gradient
    gradient = (torch.zeros_like(weight) if weight.grad is None else weight.grad).clone()
    dist.all_reduce(gradient, group=group)
    weight.grad = gradient
    # endregion
