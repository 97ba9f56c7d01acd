"""Writes zeros where a gradient is None, which an optimizer then takes for a gradient.

law: tensor_parallel.clipping.norm_is_that_of_the_whole_model
says: None
"""
# region solution clip_grad_norm
    parameters = list(parameters)
    for parameter in parameters:
        if parameter.grad is None:
            parameter.grad = torch.zeros_like(parameter)
    with_gradient = parameters
    wide = torch.float64 if any(parameter.dtype == torch.float64 for parameter in parameters) else torch.float32
    of_parts = of_wholes = torch.zeros((), dtype=wide, device=parameters[0].device)
    for parameter in with_gradient:
        square = parameter.grad.to(wide).square().sum()
        if getattr(parameter, "is_cut", False):
            of_parts = of_parts + square
        else:
            of_wholes = of_wholes + square
    norm = (summed(of_parts, group) + of_wholes).sqrt()
    scale = (max_norm / (norm + 1e-6)).clamp(max=1.0)
    for parameter in with_gradient:
        parameter.grad.mul_(scale.to(parameter.grad.dtype))
    return norm
# endregion
