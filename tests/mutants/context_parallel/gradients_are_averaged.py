"""Divides the sum by the number of ranks.

law: context_parallel.model.gradients_are_summed
says: world size
"""
# region solution sum_gradients
for parameter in parameters:
    if not parameter.requires_grad:
        continue
    gradient = (torch.zeros_like(parameter) if parameter.grad is None else parameter.grad).contiguous()
    # Each rank's loss is the whole mean, and its gradient its own tokens' part of it: a sum, and divided by nothing.
    dist.all_reduce(gradient, group=group)
    gradient /= dist.get_world_size(group)
    if parameter.grad is None:
        parameter.grad = gradient
    elif parameter.grad is not gradient:
        parameter.grad.copy_(gradient)
# endregion
