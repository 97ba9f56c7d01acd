"""Returns from combine at once where this rank has no tokens, though its experts' outputs belong to others.

law: expert_parallel.dispatch.nobody_waits_for_an_empty_rank
says: all_to_all_single
"""
    # region solution combine
    back: WayBack = dispatched.back
    if back.num_tokens == 0:
        return outputs[:0]
    as_arrived = outputs[back.arrival_R.argsort()]
    home = all_to_all_rows(as_arrived, back.received, back.sent, back.group)
    weighted = home.to(back.weight_S.dtype) * back.weight_S[:, None]
    total = weighted.new_zeros((back.num_tokens, weighted.shape[1]))
    return total.index_add(0, back.token_S, weighted).to(outputs.dtype)
    # endregion
