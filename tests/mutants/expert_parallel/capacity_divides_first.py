"""Divides before it multiplies by the factor, and may round a quotient up that only just exceeds an integer.

law: expert_parallel.route.capacity_is_rounded_up
says: capacity
"""
    # region solution expert_capacity
    return math.ceil(capacity_factor * (num_tokens * top_k / num_experts))
    # endregion
