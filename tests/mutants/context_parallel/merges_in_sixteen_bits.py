"""Merges in the outputs' own dtype.

law: context_parallel.merging.half_precision_is_merged_in_float32
says: float32
"""
# region solution merge_attention
lse = torch.logaddexp(lse_a, lse_b)
o = torch.zeros_like(o_a)
for o_part, lse_part in ((o_a, lse_a), (o_b, lse_b)):
    o += (o_part * (lse_part - lse).exp()[..., None].to(o.dtype)).masked_fill((lse_part == -math.inf)[..., None], 0)
return o, lse
# endregion
