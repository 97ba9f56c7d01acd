"""Takes the mean over an expert's replicas: N times too large, because the sum over N ranks is there already.

law: expert_parallel.gradients.experts_are_divided_once
says: expert
"""
    # region solution average_gradients
    world_size = dist.get_world_size(group)
    for parameter in parameters:
        if not parameter.requires_grad:
            continue
        gradient = torch.zeros_like(parameter) if parameter.grad is None else parameter.grad.contiguous()
        dist.all_reduce(gradient, group=replicas if getattr(parameter, "is_expert", False) else group)
        parameter.grad = gradient.div_(dist.get_world_size(replicas if getattr(parameter, "is_expert", False) else group))
    # endregion
