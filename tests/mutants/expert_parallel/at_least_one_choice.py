"""Gives each expert room for one choice at least.

law: expert_parallel.route.capacity_is_rounded_up
says: capacity
"""
    # region solution expert_capacity
    return max(1, math.ceil(capacity_factor * num_tokens * top_k / num_experts))
    # endregion
