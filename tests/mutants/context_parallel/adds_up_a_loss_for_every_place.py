"""Adds the ranks' losses place by place before it sums them up.

law: context_parallel.sequence.logits_stay_at_home
says: byte
"""
    # region solution sequence_cross_entropy
    total = F.cross_entropy(wide(logits).flatten(0, -2), targets.flatten(), ignore_index=ignore_index, reduction="none")
    # Ranks have different numbers of targets: a mean of means would count a token of a padded rank for more than others.
    count = (targets != ignore_index).sum()
    dist.all_reduce(count, group=group)
    return SumOverRanks.apply(total / count, group).sum()
    # endregion
