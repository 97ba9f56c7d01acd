"""Takes part with zeros where it has no gradient, and then hands the mean only to parameters that had one.

law: data_parallel.per_parameter.missing_gradients_count_as_zeros
says: None
"""
# region solution all_reduce_gradients
    for parameter in parameters:
        if not parameter.requires_grad:
            continue
        gradient = torch.zeros_like(parameter) if parameter.grad is None else parameter.grad
        gradient = gradient.detach().contiguous()
        dist.all_reduce(gradient, group=group)
        if parameter.grad is not None:
            parameter.grad = gradient.div_(dist.get_world_size(group))
# endregion
