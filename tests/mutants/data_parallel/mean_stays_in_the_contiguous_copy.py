"""Averages a contiguous copy and takes it for the gradient itself, which it is only where the gradient was contiguous before.

law: data_parallel.per_parameter.any_layout
says: contiguous
"""
# region solution all_reduce_gradients
    for parameter in parameters:
        if not parameter.requires_grad:
            continue
        if parameter.grad is None:
            parameter.grad = torch.zeros_like(parameter, memory_format=torch.contiguous_format)
        gradient = parameter.grad.detach().contiguous()
        dist.all_reduce(gradient, group=group)
        gradient /= dist.get_world_size(group)
# endregion
