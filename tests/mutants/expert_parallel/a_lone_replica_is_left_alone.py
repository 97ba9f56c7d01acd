"""Does nothing to an expert that has no other replica, so that it is not divided.

law: expert_parallel.gradients.experts_are_divided_once
says: no other replica
"""
    # region solution average_gradients
    world_size = dist.get_world_size(group)
    for parameter in parameters:
        is_expert = getattr(parameter, "is_expert", False)
        if not parameter.requires_grad or (is_expert and dist.get_world_size(replicas) == 1):
            continue
        gradient = torch.zeros_like(parameter) if parameter.grad is None else parameter.grad.contiguous()
        dist.all_reduce(gradient, group=replicas if is_expert else group)
        parameter.grad = gradient.div_(world_size)
    # endregion
