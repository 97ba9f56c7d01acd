"""Scales o_a where it lies and adds to it, to make no new tensor.

law: context_parallel.merging.inputs_stay_as_they_were
says: o_a
"""
    # region solution merge_attention
    lse = torch.logaddexp(wide(lse_a), wide(lse_b))
    o = wide(o_a)
    o.masked_fill_((lse_a == -math.inf)[..., None], 0).mul_((lse_a - lse).exp().nan_to_num(0.0)[..., None])
    o += (wide(o_b) * (lse_b - lse).exp()[..., None]).masked_fill((lse_b == -math.inf)[..., None], 0)
    return o, lse
    # endregion
