"""Squares in float32.

law: sharded_data_parallel.clip.norm_is_the_whole_gradients
says: norm
"""
# region solution clip_grad_norm
    gradients = list(gradients)
    norms = torch.stack([torch.linalg.vector_norm(gradient, dtype=torch.float32) for gradient in gradients])
    total = norms.square().sum()
    dist.all_reduce(total, group=group)
    norm = total.sqrt()
    factor = (max_norm / (norm + 1e-6)).clamp(max=1.0)
    for gradient in gradients:
        gradient.mul_(factor.to(gradient.dtype))
    return norm
# endregion
