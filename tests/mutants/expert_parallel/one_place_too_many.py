"""Numbers the queue from 0 and lets the place that equals the capacity in.

law: expert_parallel.route.drops_in_the_stated_order
says: capacity
"""
    # region solution choices_with_room
    num_tokens, top_k = experts_TK.shape
    in_order = experts_TK.t().reshape(-1)
    chosen = F.one_hot(in_order, num_experts)
    place = chosen.cumsum(0).gather(1, in_order[:, None])[:, 0]
    return (place - 1 <= capacity).view(top_k, num_tokens).t()
    # endregion
