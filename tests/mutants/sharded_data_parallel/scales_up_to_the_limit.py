"""Scales small gradients up to max_norm.

law: sharded_data_parallel.clip.all_are_scaled_alike
says: factor
"""
# region solution clip_grad_norm
    gradients = list(gradients)
    norms = torch.stack([torch.linalg.vector_norm(gradient, dtype=torch.float64) for gradient in gradients])
    total = norms.square().sum()
    dist.all_reduce(total, group=group)
    norm = total.sqrt()
    factor = (max_norm / (norm + 1e-6))
    for gradient in gradients:
        gradient.mul_(factor.to(gradient.dtype))
    return norm
# endregion
