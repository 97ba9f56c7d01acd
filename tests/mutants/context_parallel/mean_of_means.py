"""Averages the ranks' means.

law: context_parallel.sequence.loss_is_the_whole_mean
says: mean of the ranks' means
"""
# region solution sequence_cross_entropy
mean = F.cross_entropy(wide(logits).flatten(0, -2), targets.flatten(), ignore_index=ignore_index, reduction="sum")
count = (targets != ignore_index).sum()
dist.all_reduce(count, group=group)
own = (targets != ignore_index).sum().clamp(min=1)
return SumOverRanks.apply(mean / own / dist.get_world_size(group) + 0 / count, group)
# endregion
