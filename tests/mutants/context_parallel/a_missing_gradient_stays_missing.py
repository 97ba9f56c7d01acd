"""Takes part in the sum with zeros where grad is None, and leaves it None.

law: context_parallel.model.gradients_are_summed
says: None
"""
    # region solution sum_gradients
    for parameter in parameters:
        if not parameter.requires_grad:
            continue
        gradient = (torch.zeros_like(parameter) if parameter.grad is None else parameter.grad).contiguous()
        # Each rank's loss is the whole mean, and its gradient its own tokens' part of it: a sum, and divided by nothing.
        dist.all_reduce(gradient, group=group)
        if parameter.grad is not None and parameter.grad is not gradient:
            parameter.grad.copy_(gradient)
    # endregion
