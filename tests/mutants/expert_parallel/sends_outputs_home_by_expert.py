"""Sends the outputs home in the experts' order, as though they had arrived so.

law: expert_parallel.dispatch.combine_weighs_and_adds_up
says: sort
"""
    # region solution combine
    back: WayBack = dispatched.back
    as_arrived = outputs
    home = all_to_all_rows(as_arrived, back.received, back.sent, back.group)
    weighted = home.to(back.weight_S.dtype) * back.weight_S[:, None]
    total = weighted.new_zeros((back.num_tokens, weighted.shape[1]))
    return total.index_add(0, back.token_S, weighted).to(outputs.dtype)
    # endregion
