"""Sends zeros for frozen parameters and leaves them with a gradient.

law: expert_parallel.gradients.the_rest_is_averaged
says: frozen
"""
    # region solution average_gradients
    world_size = dist.get_world_size(group)
    for parameter in parameters:
        gradient = torch.zeros_like(parameter) if parameter.grad is None else parameter.grad.contiguous()
        dist.all_reduce(gradient, group=replicas if getattr(parameter, "is_expert", False) else group)
        parameter.grad = gradient.div_(world_size)
    # endregion
