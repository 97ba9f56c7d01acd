"""Cuts the fraction off, so that factor 1 drops even where all experts are equally popular.

law: expert_parallel.route.capacity_is_rounded_up
says: capacity
"""
    # region solution expert_capacity
    return int(capacity_factor * num_tokens * top_k / num_experts)
    # endregion
