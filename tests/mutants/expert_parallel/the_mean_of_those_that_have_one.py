"""Counts the ranks that have a gradient and divides by their number.

law: expert_parallel.gradients.the_rest_is_averaged
says: zeros
"""
    # region solution average_gradients
    for parameter in parameters:
        if not parameter.requires_grad:
            continue
        gradient = torch.zeros_like(parameter) if parameter.grad is None else parameter.grad.contiguous()
        have = gradient.new_full((), float(parameter.grad is not None))
        is_expert = getattr(parameter, "is_expert", False)
        dist.all_reduce(gradient, group=replicas if is_expert else group)
        dist.all_reduce(have, group=group)
        parameter.grad = gradient.div_(dist.get_world_size(group) if is_expert else have.clamp(min=1))
    # endregion
