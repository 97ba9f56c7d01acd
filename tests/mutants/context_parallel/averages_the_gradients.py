"""Divides the summed gradients by the number of ranks, as data parallelism does.

law: context_parallel.model.gradients_are_summed
says: sum
"""
    # region solution sum_gradients
    for parameter in parameters:
        if not parameter.requires_grad:
            continue
        gradient = (torch.zeros_like(parameter) if parameter.grad is None else parameter.grad).contiguous()
        dist.all_reduce(gradient, group=group)
        gradient /= dist.get_world_size(group)
        if parameter.grad is None:
            parameter.grad = gradient
        elif parameter.grad is not gradient:
            parameter.grad.copy_(gradient)
    # endregion
