"""Averages the incoming gradient over the ranks first, though all have the same.

law: tensor_parallel.vocabulary.sends_a_few_numbers_per_token
says: backward
"""
# region solution cross_entropy_forward
    num_rows = logits.shape[-1]
    first_row = dist.get_rank(group) * num_rows
    scores = logits.double() if logits.dtype == torch.float64 else logits.float()
    num_real = min(max(vocab_size - first_row, 0), num_rows)
    if num_real < num_rows:
        scores = F.pad(scores[..., :num_real], (0, num_rows - num_real), value=-torch.inf)
    largest = scores.amax(-1)
    dist.all_reduce(largest, dist.ReduceOp.MAX, group=group)
    scores = scores - largest.unsqueeze(-1)
    counts = targets != ignore_index
    row = targets - first_row
    is_here = counts & (row >= 0) & (row < num_rows)
    row = row.where(is_here, 0)
    target_score = scores.gather(-1, row.unsqueeze(-1)).squeeze(-1).where(is_here, 0)
    exponentials = scores.exp_()
    sums = torch.stack((exponentials.sum(-1), target_score))
    dist.all_reduce(sums, group=group)
    denominator, target_score = sums
    num_counted = counts.sum()
    ctx.save_for_backward(exponentials, denominator, row, is_here, counts, num_counted)
    ctx.dtype, ctx.group = logits.dtype, group
    return (denominator.log() - target_score).where(counts, 0).sum() / num_counted
# endregion
# region solution cross_entropy_backward
    exponentials, denominator, row, is_here, counts, num_counted = ctx.saved_tensors
    gradient = summed(gradient, ctx.group) / dist.get_world_size(ctx.group)
    scale = gradient / num_counted * counts
    d_logits = exponentials * (scale / denominator).unsqueeze(-1)
    d_logits.scatter_add_(-1, row.unsqueeze(-1), -(scale * is_here).unsqueeze(-1))
    return d_logits.to(ctx.dtype), None, None, None, None
# endregion
