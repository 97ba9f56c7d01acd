"""Gathers each rank's maximum, sum and target score: within the bounds on two ranks, and growing with every further one.

law: tensor_parallel.vocabulary.sends_a_few_numbers_per_token
says: bytes
"""
# region solution cross_entropy_forward
    num_rows = logits.shape[-1]
    first_row = dist.get_rank(group) * num_rows
    scores = logits.double() if logits.dtype == torch.float64 else logits.float()
    num_real = min(max(vocab_size - first_row, 0), num_rows)
    if num_real < num_rows:
        scores = F.pad(scores[..., :num_real], (0, num_rows - num_real), value=-torch.inf)
    own_largest = scores.amax(-1)
    finite = own_largest.where(own_largest > -torch.inf, 0)
    own_sum = (scores - finite.unsqueeze(-1)).exp().sum(-1)
    counts = targets != ignore_index
    row = targets - first_row
    is_here = counts & (row >= 0) & (row < num_rows)
    row = row.where(is_here, 0)
    target_score = scores.gather(-1, row.unsqueeze(-1)).squeeze(-1).where(is_here, 0)
    every = gathered(torch.stack((own_largest, own_sum, target_score)).unsqueeze(0), 0, group)
    largest = every[:, 0].amax(0)
    denominator = (every[:, 1] * (every[:, 0] - largest).exp()).sum(0)
    target_score = every[:, 2].sum(0) - largest
    exponentials = (scores - largest.unsqueeze(-1)).exp()
    num_counted = counts.sum()
    ctx.save_for_backward(exponentials, denominator, row, is_here, counts, num_counted)
    ctx.dtype = logits.dtype
    return (denominator.log() - target_score).where(counts, 0).sum() / num_counted
# endregion
