"""Squares and sums in float32, which overflows from 1.8e19 on and vanishes below 1e-23.

law: sharded_data_parallel.clip.norm_is_the_whole_gradients
says: norm
"""
    # region solution clip_grad_norm
    gradients = list(gradients)
    norms = torch.stack([gradient.float().square().sum().sqrt() for gradient in gradients])
    # Squares add up; norms don't. float64, because float32 overflows from 1.8e19 on when it is squared.
    total = norms.square().sum()
    dist.all_reduce(total, group=group)
    norm = total.sqrt()
    # A tensor and no float(): the device need not be waited for.
    factor = (max_norm / (norm + 1e-6)).clamp(max=1.0)
    for gradient in gradients:
        gradient.mul_(factor.to(gradient.dtype))
    return norm
    # endregion
