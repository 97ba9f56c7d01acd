"""Sends q, k and v in one all-to-all."""
# region solution ulysses_attention
num_ranks = dist.get_world_size(group)
for name, x in (("query", q), ("key", k)):
    if x.shape[1] % num_ranks:
        raise ValueError(f"{x.shape[1]} {name} heads can't be shared out to {num_ranks} ranks")
# (B, H, S, D), all heads of some tokens, becomes (B, H/N, T, D), some heads of all tokens.
counts = [x.shape[1] // num_ranks for x in (q, k, v)]
parts = [x.unflatten(1, (num_ranks, count)) for x, count in zip((q, k, v), counts, strict=True)]
joined = Exchange.apply(torch.cat(parts, dim=2).flatten(1, 2), group, 1, 2)
q, k, v = joined.split(counts, dim=1)
o = WholeAttention.apply(q, k, v, causal, kernel)
return Exchange.apply(o, group, 2, 1)
# endregion
