"""Scales to max_norm also where the norm is smaller.

law: tensor_parallel.clipping.gradients_are_scaled_alike
says: scaled up to max_norm
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
    # Only parts add up over the ranks: what is whole on every rank would count N times.
    norm = (summed(of_parts, group) + of_wholes).sqrt()
    scale = (max_norm / (norm + 1e-6))  # on the device: reading it would make the CPU wait
    for parameter in with_gradient:
        parameter.grad.mul_(scale)
    return norm
# endregion
