"""Padding takes part in the softmax.

law: tensor_parallel.vocabulary.uneven_vocabularies_are_padded
says: padding takes part
"""
# region solution cross_entropy_forward
        num_rows = logits.shape[-1]
        first_row = dist.get_rank(group) * num_rows
        scores = logits.double() if logits.dtype == torch.float64 else logits.float()
        # Padding is no token. As -inf it is never the largest, and its exponential is 0; as 0 it would take a share of the softmax.
        num_real = num_rows
        if num_real < num_rows:
            scores = F.pad(scores[..., :num_real], (0, num_rows - num_real), value=-torch.inf)

        largest = scores.amax(-1)
        dist.all_reduce(largest, dist.ReduceOp.MAX, group=group)
        scores = scores - largest.unsqueeze(-1)

        # Only the rank that owns the target's row knows its score; the others add zero, as in the embedding.
        counts = targets != ignore_index
        row = targets - first_row
        is_here = counts & (row >= 0) & (row < num_rows)
        row = row.where(is_here, 0)
        target_score = scores.gather(-1, row.unsqueeze(-1)).squeeze(-1).where(is_here, 0)

        exponentials = scores.exp_()
        sums = torch.stack((exponentials.sum(-1), target_score))
        dist.all_reduce(sums, group=group)  # both in one message: a latency less
        denominator, target_score = sums

        num_counted = counts.sum()
        ctx.save_for_backward(exponentials, denominator, row, is_here, counts, num_counted)
        ctx.dtype = logits.dtype
        return (denominator.log() - target_score).where(counts, 0).sum() / num_counted
# endregion
