"""Multiplies the output of an empty part by its share of 0, which keeps NaN and infinity.

law: context_parallel.merging.empty_rows_count_nothing
says: -inf
"""
    # region solution merge_attention
    # log(e^a + e^b), with the larger one taken out before anything is raised to a power; -inf and -inf give -inf.
    lse = torch.logaddexp(wide(lse_a), wide(lse_b))
    o = torch.zeros_like(wide(o_a))
    for o_part, lse_part in ((o_a, lse_a), (o_b, lse_b)):
        o += wide(o_part) * (lse_part - lse).exp().nan_to_num(0.0)[..., None]
    return o, lse
    # endregion
