"""Adds the ranks' norms where their squares belong.

law: tensor_parallel.clipping.norm_is_that_of_the_whole_model
says: norms of parts are added
"""
# region solution clip_grad_norm
    parameters = list(parameters)
    with_gradient = [parameter for parameter in parameters if parameter.grad is not None]
    wide = torch.float64 if any(parameter.dtype == torch.float64 for parameter in parameters) else torch.float32
    of_parts = of_wholes = torch.zeros((), dtype=wide, device=parameters[0].device)
    for parameter in with_gradient:
        square = parameter.grad.to(wide).square().sum()
        if getattr(parameter, "is_cut", False):
            of_parts = of_parts + square
        else:
            of_wholes = of_wholes + square
    norm = (summed(of_parts.sqrt(), group).square() + of_wholes).sqrt()
    scale = (max_norm / (norm + 1e-6)).clamp(max=1.0)
    for parameter in with_gradient:
        parameter.grad.mul_(scale.to(parameter.grad.dtype))
    return norm
# endregion
