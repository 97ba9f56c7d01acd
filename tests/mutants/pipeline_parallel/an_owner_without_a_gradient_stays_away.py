"""Returns at once where grad is None: the other owners wait in the all-reduce.

law: pipeline_parallel.tied.gradients_are_added
says: all_reduce
"""
    # region solution all_reduce_tied_gradient
    if weight.grad is None:
        return
    gradient = weight.grad.contiguous()
    dist.all_reduce(gradient, group=group)
    weight.grad.copy_(gradient)
    # endregion
