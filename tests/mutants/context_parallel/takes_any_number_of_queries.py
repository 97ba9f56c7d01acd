"""Refuses nothing.

law: context_parallel.ring.what_does_not_fit_is_refused
says: ValueError
"""
# region solution ring_attention
return RingAttention.apply(q, k, v, group, causal, zigzag, kernel)
# endregion
