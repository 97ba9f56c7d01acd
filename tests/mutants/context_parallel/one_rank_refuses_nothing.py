"""Hands one rank's tensors to the kernel before it has looked whether they fit.

law: context_parallel.ring.what_does_not_fit_is_refused
says: ValueError
"""
# region solution ring_attention
if dist.get_world_size(group) == 1:
    return WholeAttention.apply(q, k, v, causal, kernel)
if causal and q.shape[2] != k.shape[2]:
    raise ValueError(f"causal attention needs as many queries as keys, not {q.shape[2]} and {k.shape[2]}")
if zigzag and k.shape[2] % 2:
    raise ValueError(f"zigzag has two chunks of one length on each rank: {k.shape[2]} tokens are no multiple of 2")
return RingAttention.apply(q, k, v, group, causal, zigzag, kernel)
# endregion
