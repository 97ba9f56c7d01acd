"""Lets each token queue up with all its choices: second choices of early tokens push out first ones of late tokens.

law: expert_parallel.route.drops_in_the_stated_order
says: first choices
"""
    # region solution choices_with_room
    in_order = experts_TK.reshape(-1)
    chosen = F.one_hot(in_order, num_experts)
    place = chosen.cumsum(0).gather(1, in_order[:, None])[:, 0]
    return (place <= capacity).view(experts_TK.shape)
    # endregion
