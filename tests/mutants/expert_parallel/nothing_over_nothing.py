"""Takes the mean over no tokens: the loss of an empty rank is not a number.

law: expert_parallel.balance.equals_its_formula
says: tokens
"""
    # region solution load_balancing_loss
    num_tokens, num_experts = routing.probabilities.shape
    counts_E = torch.bincount(routing.experts.flatten(), minlength=num_experts)
    shares_E = counts_E.to(routing.probabilities.dtype) / routing.experts.numel()
    return num_experts * (shares_E * routing.probabilities.mean(0)).sum()
    # endregion
