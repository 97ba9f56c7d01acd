"""Drops a whole token as soon as one of its choices finds no room.

law: expert_parallel.route.drops_in_the_stated_order
says: loses all its choices
"""
    # region solution choices_with_room
    num_tokens, top_k = experts_TK.shape
    in_order = experts_TK.t().reshape(-1)
    chosen = F.one_hot(in_order, num_experts)
    place = chosen.cumsum(0).gather(1, in_order[:, None])[:, 0]
    kept = (place <= capacity).view(top_k, num_tokens).t()
    return kept.all(-1, keepdim=True).expand_as(kept)
    # endregion
