"""Refuses unequal numbers of queries and keys without saying which.

law: context_parallel.ring.what_does_not_fit_is_refused
says: queries
"""
    # region solution ring_attention
    if causal and q.shape[2] != k.shape[2]:
        raise ValueError("causal attention needs as many queries as keys")
    if zigzag and k.shape[2] % 2:
        raise ValueError(f"zigzag has two chunks of one length on each rank: {k.shape[2]} tokens are no multiple of 2")
    return RingAttention.apply(q, k, v, group, causal, zigzag, kernel)
    # endregion
