"""Rounds each product to 16 bits and adds those up.

law: expert_parallel.dispatch.half_precision_is_summed_in_float32
says: float32
"""
    # region solution combine
    back: WayBack = dispatched.back
    as_arrived = outputs[back.arrival_R.argsort()]
    home = all_to_all_rows(as_arrived, back.received, back.sent, back.group)
    weighted = home.to(back.weight_S.dtype) * back.weight_S[:, None]
    weighted = weighted.to(outputs.dtype)
    total = weighted.new_zeros((back.num_tokens, weighted.shape[1]))
    return total.index_add(0, back.token_S, weighted).to(outputs.dtype)
    # endregion
