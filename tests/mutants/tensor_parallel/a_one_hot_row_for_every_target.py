"""Finds the targets' scores with one-hot rows of the whole vocabulary, eight bytes for each of its words.

law: tensor_parallel.vocabulary.logits_are_never_gathered
says: memory
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
    world_size = dist.get_world_size(group)
    one_hot = F.one_hot(targets.where(counts, 0), num_rows * world_size)
    one_hot = own_part(one_hot, -1, group) * counts.unsqueeze(-1)
    is_here = one_hot.sum(-1) == 1
    row = one_hot.argmax(-1)
    target_score = scores.masked_fill(one_hot == 0, 0).sum(-1)
    exponentials = scores.exp_()
    sums = torch.stack((exponentials.sum(-1), target_score))
    dist.all_reduce(sums, group=group)
    denominator, target_score = sums
    num_counted = counts.sum()
    ctx.save_for_backward(exponentials, denominator, row, is_here, counts, num_counted)
    ctx.dtype = logits.dtype
    return (denominator.log() - target_score).where(counts, 0).sum() / num_counted
# endregion
