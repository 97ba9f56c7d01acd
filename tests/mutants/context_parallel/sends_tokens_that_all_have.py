"""Sends the tokens of the first rank to all, which have them.

law: context_parallel.sequence.labels_are_shifted_before_the_cut
says: broadcast
"""
# region solution shard_sequence
rank, num_ranks = dist.get_rank(group), dist.get_world_size(group)
num_tokens = tokens.shape[1]
tokens = tokens.clone()
dist.broadcast(tokens, group=group, group_src=0)
positions = torch.arange(num_tokens, device=tokens.device) if positions is None else positions
# Shifted while the sequence is whole: the target of a rank's last token is another rank's label.
targets = F.pad(labels[:, 1:], (0, 1), value=ignore_index)
num_missing = -num_tokens % (2 * num_ranks if zigzag else num_ranks)
# Behind the end: causal queries never look there.
tokens, positions = F.pad(tokens, (0, num_missing)), F.pad(positions, (0, num_missing))
targets = F.pad(targets, (0, num_missing), value=ignore_index)
if zigzag:
    return Shard(*(zigzag_split(x, group, dim=x.ndim - 1) for x in (tokens, targets, positions)))
return Shard(*(x.chunk(num_ranks, -1)[rank].clone() for x in (tokens, targets, positions)))
# endregion
