"""Works in place on o_a.

law: context_parallel.merging.inputs_stay_as_they_were
says: in-place
"""
# region solution merge_attention
lse = torch.logaddexp(wide(lse_a), wide(lse_b))
is_empty_a, is_empty_b = (lse_a == -math.inf)[..., None], (lse_b == -math.inf)[..., None]
o = wide(o_a).mul_((lse_a - lse).exp()[..., None]).masked_fill_(is_empty_a, 0)
return o + (wide(o_b) * (lse_b - lse).exp()[..., None]).masked_fill(is_empty_b, 0), lse
# endregion
