"""Ignores the group and reduces in the world, in which the stages between have nothing to add and never call.

law: pipeline_parallel.tied.trains_as_one_weight
says: all_reduce
"""
    # region solution all_reduce_tied_gradient
    gradient = (torch.zeros_like(weight) if weight.grad is None else weight.grad).contiguous()
    dist.all_reduce(gradient)
    weight.grad = gradient
    # endregion
