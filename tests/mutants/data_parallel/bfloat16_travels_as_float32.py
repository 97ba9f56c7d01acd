"""Widens gradients of 2 bytes to float32 before they travel, for precision, and narrows the mean again.

law: data_parallel.per_parameter.each_gradient_travels_once
says: bytes
"""
# region solution all_reduce_gradients
    for parameter in parameters:
        if not parameter.requires_grad:
            continue
        gradient = torch.zeros_like(parameter) if parameter.grad is None else parameter.grad
        wide = torch.promote_types(gradient.dtype, torch.float32)
        gradient = gradient.detach().to(wide).contiguous()
        dist.all_reduce(gradient, group=group)
        parameter.grad = (gradient / dist.get_world_size(group)).to(parameter.dtype)
# endregion
