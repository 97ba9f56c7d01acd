"""Counts the first choice of each token only, as if K were 1.

law: expert_parallel.balance.equals_its_formula
says: first choices
"""
    # region solution load_balancing_loss
    num_tokens, num_experts = routing.probabilities.shape
    if num_tokens == 0:
        return routing.probabilities.sum()
    counts_E = torch.bincount(routing.experts[:, 0], minlength=num_experts)
    shares_E = counts_E.to(routing.probabilities.dtype) / num_tokens
    return num_experts * (shares_E * routing.probabilities.mean(0)).sum()
    # endregion
