"""Counts first choices and second ones each for themselves: an expert takes its capacity K times.

law: expert_parallel.route.drops_in_the_stated_order
says: capacity
"""
    # region solution choices_with_room
    chosen = F.one_hot(experts_TK, num_experts)
    place = chosen.cumsum(0).gather(2, experts_TK[:, :, None])[:, :, 0]
    return place <= capacity
    # endregion
