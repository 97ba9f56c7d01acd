"""Divides the sum by the number of owners, as data parallelism does.

law: pipeline_parallel.tied.gradients_are_added
says: sum
"""
    # region solution all_reduce_tied_gradient
    gradient = (torch.zeros_like(weight) if weight.grad is None else weight.grad).contiguous()
    dist.all_reduce(gradient, group=group)
    weight.grad = gradient / dist.get_world_size(group)
    # endregion
