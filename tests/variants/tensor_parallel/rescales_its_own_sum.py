"""Sums against its own maximum, slice by slice, rescales the sum by the largest of all, and takes exponentials again in backward."""
# region solution cross_entropy_forward
    rank, num_rows = dist.get_rank(group), logits.shape[-1]
    num_real = max(0, min(num_rows, vocab_size - rank * num_rows))
    wide = torch.float64 if logits.dtype == torch.float64 else torch.float32
    own_largest = torch.full(targets.shape, -torch.inf, dtype=wide, device=logits.device)
    own_sum = torch.zeros_like(own_largest)
    for piece in logits[..., :num_real].split(max(1, num_rows // 4), -1) if num_real else ():
        piece = piece.to(wide)
        larger = torch.maximum(own_largest, piece.amax(-1))
        own_sum = own_sum * (own_largest - larger).exp() + (piece - larger.unsqueeze(-1)).exp().sum(-1)
        own_largest = larger
    largest = own_largest.clone(memory_format=torch.contiguous_format)
    dist.all_reduce(largest, dist.ReduceOp.MAX, group=group)

    counts = targets.ne(ignore_index)
    row = targets - rank * num_rows
    is_here = counts & row.ge(0) & row.lt(num_rows)
    row = row.masked_fill(~is_here, 0)
    target_score = logits.gather(-1, row.unsqueeze(-1)).squeeze(-1).to(wide) - largest
    both = torch.stack((target_score.masked_fill(~is_here, 0), own_sum * (own_largest - largest).exp()), dim=-1)
    dist.all_reduce(both, group=group)
    target_score, denominator = both.unbind(-1)
    ctx.save_for_backward(logits, largest, denominator, row, is_here, counts)
    ctx.num_real = num_real
    losses = (denominator.log() - target_score).masked_fill(~counts, 0)
    return losses.sum() / counts.sum()
# endregion
# region solution cross_entropy_backward
    logits, largest, denominator, row, is_here, counts = ctx.saved_tensors
    scale = counts * (gradient / counts.sum())
    d_logits = (logits.to(largest.dtype) - largest.unsqueeze(-1)).clamp_(max=0).exp_()
    d_logits *= (scale / denominator).unsqueeze(-1)
    d_logits[..., ctx.num_real :] = 0
    own = d_logits.gather(-1, row.unsqueeze(-1)) - (scale * is_here).unsqueeze(-1)
    d_logits.scatter_(-1, row.unsqueeze(-1), own)
    return d_logits.to(logits.dtype), None, None, None, None
# endregion
