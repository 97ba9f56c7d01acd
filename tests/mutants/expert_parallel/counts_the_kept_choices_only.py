"""Counts choices after dropping: the crowded expert looks no worse than its capacity.

law: expert_parallel.balance.equals_its_formula
says: dropped
"""
    # region solution load_balancing_loss
    num_tokens, num_experts = routing.probabilities.shape
    if num_tokens == 0:
        return routing.probabilities.sum()
    counts_E = torch.bincount(routing.experts[routing.kept], minlength=num_experts)
    shares_E = counts_E.to(routing.probabilities.dtype) / routing.experts.numel()
    return num_experts * (shares_E * routing.probabilities.mean(0)).sum()
    # endregion
