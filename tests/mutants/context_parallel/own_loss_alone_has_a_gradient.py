"""Divides the gradient by its own number of targets.

law: context_parallel.sequence.loss_gradients_are_the_parts_of_the_whole
says: gradient
"""
# region solution sequence_cross_entropy
total = F.cross_entropy(wide(logits).flatten(0, -2), targets.flatten(), ignore_index=ignore_index, reduction="sum")
# Ranks have different numbers of targets: a mean of means would count a token of a padded rank for more than others.
count = (targets != ignore_index).sum()
dist.all_reduce(count, group=group)
own = total / (targets != ignore_index).sum().clamp(min=1)
return own + (SumOverRanks.apply(total / count, group) - own).detach()
# endregion
