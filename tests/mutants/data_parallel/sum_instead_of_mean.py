"""Sums the gradients and never divides.

law: data_parallel.per_parameter.gradients_are_averaged
says: mean
"""
# region solution all_reduce_gradients
    for parameter in parameters:
        if not parameter.requires_grad:
            continue
        gradient = torch.zeros_like(parameter) if parameter.grad is None else parameter.grad
        gradient = gradient.detach().contiguous()
        dist.all_reduce(gradient, group=group)
        parameter.grad = gradient
# endregion
