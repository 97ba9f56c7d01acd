"""Returns the global norm but scales by the rank's own.

law: sharded_data_parallel.clip.all_are_scaled_alike
says: own norm
"""
# region solution clip_grad_norm
    gradients = list(gradients)
    norms = torch.stack([torch.linalg.vector_norm(gradient, dtype=torch.float64) for gradient in gradients])
    total = norms.square().sum()
    own = total.sqrt()
    dist.all_reduce(total, group=group)
    norm = total.sqrt()
    factor = (max_norm / (own + 1e-6)).clamp(max=1.0)
    for gradient in gradients:
        gradient.mul_(factor.to(gradient.dtype))
    return norm
# endregion
