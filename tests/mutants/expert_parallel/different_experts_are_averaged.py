"""Takes the mean of all gradients over the whole group, whatever parameter they belong to.

law: expert_parallel.gradients.experts_are_divided_once
says: different experts
"""
    # region solution average_gradients
    world_size = dist.get_world_size(group)
    for parameter in parameters:
        if not parameter.requires_grad:
            continue
        gradient = torch.zeros_like(parameter) if parameter.grad is None else parameter.grad.contiguous()
        dist.all_reduce(gradient, group=group)
        parameter.grad = gradient.div_(world_size)
    # endregion
