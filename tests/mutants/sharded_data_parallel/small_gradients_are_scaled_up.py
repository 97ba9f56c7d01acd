"""Multiplies by max_norm / norm also where that is more than 1.

law: sharded_data_parallel.clip.all_are_scaled_alike
says: factor
"""
    # region solution clip_grad_norm
    gradients = list(gradients)
    norms = torch.stack([torch.linalg.vector_norm(gradient, dtype=torch.float64) for gradient in gradients])
    # Squares add up; norms don't. float64, because float32 overflows from 1.8e19 on when it is squared.
    total = norms.square().sum()
    dist.all_reduce(total, group=group)
    norm = total.sqrt()
    # A tensor and no float(): the device need not be waited for.
    factor = (max_norm / (norm + 1e-6))
    for gradient in gradients:
        gradient.mul_(factor.to(gradient.dtype))
    return norm
    # endregion
