"""Makes the zeros for a missing gradient of the weight's shape, in torch's own dtype.

law: pipeline_parallel.tied.gradients_are_added
says: bfloat16
"""
    # region solution all_reduce_tied_gradient
    gradient = (torch.zeros(weight.shape) if weight.grad is None else weight.grad).contiguous()
    dist.all_reduce(gradient, group=group)
    weight.grad = gradient
    # endregion
