"""Looks at the key heads only when the queries are already exchanged.

law: context_parallel.ulysses.uneven_heads_are_refused
says: sent
"""
    # region solution ulysses_attention
    num_ranks = dist.get_world_size(group)
    exchanged = []
    for name, x in (("query", q), ("key", k), ("value", v)):
        if x.shape[1] % num_ranks:
            raise ValueError(f"{x.shape[1]} {name} heads can't be shared out to {num_ranks} ranks")
        exchanged.append(Exchange.apply(x, group, 1, 2))
    o = WholeAttention.apply(*exchanged, causal, kernel)
    return Exchange.apply(o, group, 2, 1)
    # endregion
