"""Divides experts' gradients by W and by the number of ranks that share them.

law: expert_parallel.gradients.experts_are_divided_once
says: divided twice
"""
    # region solution average_gradients
    world_size = dist.get_world_size(group)
    for parameter in parameters:
        if not parameter.requires_grad:
            continue
        gradient = torch.zeros_like(parameter) if parameter.grad is None else parameter.grad.contiguous()
        dist.all_reduce(gradient, group=replicas if getattr(parameter, "is_expert", False) else group)
        shared = world_size // dist.get_world_size(replicas) if getattr(parameter, "is_expert", False) else 1
        parameter.grad = gradient.div_(world_size * shared)
    # endregion
