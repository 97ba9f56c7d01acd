"""Multiplies each rank's mean by its number of targets, which is NaN · 0 where a rank has none.

law: context_parallel.sequence.loss_is_the_whole_mean
says: loss
"""
    # region solution sequence_cross_entropy
    mean = F.cross_entropy(wide(logits).flatten(0, -2), targets.flatten(), ignore_index=ignore_index)
    own = (targets != ignore_index).sum()
    count = own.clone()
    dist.all_reduce(count, group=group)
    return SumOverRanks.apply(mean * own / count, group)
    # endregion
