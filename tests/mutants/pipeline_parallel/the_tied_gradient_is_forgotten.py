"""Leaves every owner with the gradient of its own use: the copies begin equal and drift apart.

law: pipeline_parallel.tied.trains_as_one_weight
says: grad
"""
    # region solution all_reduce_tied_gradient
    if weight.grad is None:
        weight.grad = torch.zeros_like(weight)
    # endregion
