"""Asks only whether the query heads divide.

law: context_parallel.ulysses.uneven_heads_are_refused
says: ValueError
"""
# region solution ulysses_attention
num_ranks = dist.get_world_size(group)
for name, x in (("query", q),):
    if x.shape[1] % num_ranks:
        raise ValueError(f"{x.shape[1]} {name} heads can't be shared out to {num_ranks} ranks")
# (B, H, S, D), all heads of some tokens, becomes (B, H/N, T, D), some heads of all tokens.
q, k, v = (Exchange.apply(x, group, 1, 2) for x in (q, k, v))
o = WholeAttention.apply(q, k, v, causal, kernel)
return Exchange.apply(o, group, 2, 1)
# endregion
