"""Takes a parameter that has a gradient for one that is trained.

law: context_parallel.model.gradients_are_summed
says: frozen
"""
# region solution sum_gradients
for parameter in parameters:
    if not parameter.requires_grad and parameter.grad is None:
        continue
    gradient = (torch.zeros_like(parameter) if parameter.grad is None else parameter.grad).contiguous()
    # Each rank's loss is the whole mean, and its gradient its own tokens' part of it: a sum, and divided by nothing.
    dist.all_reduce(gradient, group=group)
    if parameter.grad is None:
        parameter.grad = gradient
    elif parameter.grad is not gradient:
        parameter.grad.copy_(gradient)
# endregion
