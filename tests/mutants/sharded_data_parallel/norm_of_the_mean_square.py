"""Averages the squares over the ranks, as gradients are averaged.

law: sharded_data_parallel.clip.norm_is_the_whole_gradients
says: norm
"""
    # region solution clip_grad_norm
    gradients = list(gradients)
    norms = torch.stack([torch.linalg.vector_norm(gradient, dtype=torch.float64) for gradient in gradients])
    # Squares add up; norms don't. float64, because float32 overflows from 1.8e19 on when it is squared.
    total = norms.square().sum()
    dist.all_reduce(total, group=group)
    norm = (total / dist.get_world_size(group)).sqrt()
    # A tensor and no float(): the device need not be waited for.
    factor = (max_norm / (norm + 1e-6)).clamp(max=1.0)
    for gradient in gradients:
        gradient.mul_(factor.to(gradient.dtype))
    return norm
    # endregion
