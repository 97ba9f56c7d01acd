"""Clips by torch's functions for lists of tensors, and sends the parts' squares as a vector of one."""
# region solution clip_grad_norm
    parameters = list(parameters)
    with_gradient = [parameter for parameter in parameters if parameter.grad is not None]
    wide = torch.float32
    for parameter in parameters:
        wide = torch.promote_types(wide, parameter.dtype)
    squares = torch.zeros(2, dtype=wide, device=parameters[0].device)
    if with_gradient:
        norms = torch.stack([torch.linalg.vector_norm(parameter.grad, dtype=wide) for parameter in with_gradient])
        place = torch.tensor([int(bool(getattr(parameter, "is_cut", False))) for parameter in with_gradient], device=norms.device)
        squares.index_add_(0, place, norms.square())
    of_parts = squares[1:].clone()
    dist.all_reduce(of_parts, group=group)
    norm = torch.sqrt(squares[0] + of_parts[0])
    scale = torch.clamp(max_norm / (norm + 1e-6), max=1.0)
    for dtype in {parameter.grad.dtype for parameter in with_gradient}:
        torch._foreach_mul_([parameter.grad for parameter in with_gradient if parameter.grad.dtype == dtype], scale.to(dtype))
    return norm
# endregion
