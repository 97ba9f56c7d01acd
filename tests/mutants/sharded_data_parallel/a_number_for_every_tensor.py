"""All-reduces the square of every tensor and sums them afterwards.

law: sharded_data_parallel.clip.one_number_travels
says: number
"""
    # region solution clip_grad_norm
    gradients = list(gradients)
    norms = torch.stack([torch.linalg.vector_norm(gradient, dtype=torch.float64) for gradient in gradients])
    # Squares add up; norms don't. float64, because float32 overflows from 1.8e19 on when it is squared.
    squares = norms.square()
    dist.all_reduce(squares, group=group)
    total = squares.sum()
    norm = total.sqrt()
    # A tensor and no float(): the device need not be waited for.
    factor = (max_norm / (norm + 1e-6)).clamp(max=1.0)
    for gradient in gradients:
        gradient.mul_(factor.to(gradient.dtype))
    return norm
    # endregion
