"""Rounds the merged output to the dtype of the parts.

law: context_parallel.merging.half_precision_is_merged_in_float32
says: float32
"""
    # region solution merge_attention
    # log(e^a + e^b), with the larger one taken out before anything is raised to a power; -inf and -inf give -inf.
    lse = torch.logaddexp(wide(lse_a), wide(lse_b))
    o = torch.zeros_like(wide(o_a))
    for o_part, lse_part in ((o_a, lse_a), (o_b, lse_b)):
        # Each set's share of the whole sum: e^(lse_part - lse). Of a row that saw nothing, 0 · NaN would be NaN: it is left out.
        is_empty = (lse_part == -math.inf)[..., None]
        o += (wide(o_part) * (lse_part - lse).exp()[..., None]).masked_fill(is_empty, 0)
    return o.to(o_a.dtype), lse
    # endregion
