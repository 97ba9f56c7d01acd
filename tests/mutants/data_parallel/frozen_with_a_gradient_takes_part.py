"""Takes whatever has a gradient for trainable, so that what is left from before a layer was frozen travels and changes.

law: data_parallel.per_parameter.frozen_parameters_stay_out
says: frozen
"""
# region solution all_reduce_gradients
    for parameter in parameters:
        if not parameter.requires_grad and parameter.grad is None:
            continue
        gradient = torch.zeros_like(parameter) if parameter.grad is None else parameter.grad
        gradient = gradient.detach().contiguous()
        dist.all_reduce(gradient, group=group)
        parameter.grad = gradient.div_(dist.get_world_size(group))
# endregion
