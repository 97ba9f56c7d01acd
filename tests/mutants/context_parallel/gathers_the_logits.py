"""Gathers all logits to compute the loss.

law: context_parallel.sequence.logits_stay_at_home
says: all_gather
"""
# region solution sequence_cross_entropy
parts = [torch.empty_like(logits) for _ in range(dist.get_world_size(group))]
dist.all_gather(parts, logits.detach().contiguous(), group=group)
total = F.cross_entropy(wide(logits).flatten(0, -2), targets.flatten(), ignore_index=ignore_index, reduction="sum")
# Ranks have different numbers of targets: a mean of means would count a token of a padded rank for more than others.
count = (targets != ignore_index).sum()
dist.all_reduce(count, group=group)
return SumOverRanks.apply(total / count, group)
# endregion
