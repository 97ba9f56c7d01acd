"""Divides the counts by T instead of T·K.

law: expert_parallel.balance.equals_its_formula
says: T·K
"""
    # region solution load_balancing_loss
    num_tokens, num_experts = routing.probabilities.shape
    if num_tokens == 0:
        return routing.probabilities.sum()
    counts_E = torch.bincount(routing.experts.flatten(), minlength=num_experts)
    shares_E = counts_E.to(routing.probabilities.dtype) / num_tokens
    return num_experts * (shares_E * routing.probabilities.mean(0)).sum()
    # endregion
