"""Subtracts minus infinity from itself.

law: context_parallel.merging.empty_rows_count_nothing
says: NaN
"""
# region solution merge_attention
lse = torch.logaddexp(wide(lse_a), wide(lse_b))
o = wide(o_a) * (lse_a - lse).exp()[..., None] + wide(o_b) * (lse_b - lse).exp()[..., None]
return o, lse
# endregion
