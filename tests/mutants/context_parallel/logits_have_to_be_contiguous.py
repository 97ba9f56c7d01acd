"""Views logits, whatever their strides, as rows.

law: context_parallel.sequence.loss_is_the_whole_mean
says: view
"""
# region solution sequence_cross_entropy
total = F.cross_entropy(wide(logits).view(-1, logits.shape[-1]), targets.flatten(), ignore_index=ignore_index, reduction="sum")
# Ranks have different numbers of targets: a mean of means would count a token of a padded rank for more than others.
count = (targets != ignore_index).sum()
dist.all_reduce(count, group=group)
return SumOverRanks.apply(total / count, group)
# endregion
