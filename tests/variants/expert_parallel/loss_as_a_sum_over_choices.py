"""Adds up the mean probabilities of all chosen experts, one by one, which is the same sum in another order; no case for no tokens."""
    # region solution load_balancing_loss
    (num_tokens, num_experts), num_choices = routing.probabilities.shape, routing.experts.numel()
    mean_E = routing.probabilities.sum(0) / max(num_tokens, 1)
    return mean_E[routing.experts].sum() * (num_experts / max(num_choices, 1))
    # endregion
