"""Takes -inf for a very small finite number: a row that is empty in both parts gets a mean of what means nothing.

law: context_parallel.merging.empty_rows_count_nothing
says: -inf
"""
    # region solution merge_attention
    a, b = (wide(x).clamp(min=-1e30) for x in (lse_a, lse_b))
    lse = torch.logaddexp(a, b)
    o = torch.zeros_like(wide(o_a))
    for o_part, lse_part in ((o_a, a), (o_b, b)):
        o += wide(o_part).nan_to_num(0.0, 0.0, 0.0) * (lse_part - lse).exp()[..., None]
    return o, lse
    # endregion
