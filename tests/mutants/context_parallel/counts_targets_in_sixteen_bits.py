"""Counts targets in the dtype of the logits, and all ranks' too: bfloat16 has no 257.

law: context_parallel.sequence.loss_is_the_whole_mean
says: loss
"""
# region solution sequence_cross_entropy
total = F.cross_entropy(wide(logits).flatten(0, -2), targets.flatten(), ignore_index=ignore_index, reduction="sum")
# Ranks have different numbers of targets: a mean of means would count a token of a padded rank for more than others.
count = (targets != ignore_index).sum().to(logits.dtype)
dist.all_reduce(count, group=group)
return SumOverRanks.apply(total / count, group)
# endregion
