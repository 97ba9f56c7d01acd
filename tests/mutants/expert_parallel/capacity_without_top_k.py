"""Forgets that each token has K choices.

law: expert_parallel.route.capacity_is_rounded_up
says: top_k
"""
    # region solution expert_capacity
    return math.ceil(capacity_factor * num_tokens / num_experts)
    # endregion
