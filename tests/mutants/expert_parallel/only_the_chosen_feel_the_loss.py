"""Lets the gradient through the chosen experts' probabilities only.

law: expert_parallel.balance.gradient_goes_through_probabilities
says: chosen experts' probabilities alone
"""
    # region solution load_balancing_loss
    num_tokens, num_experts = routing.probabilities.shape
    if num_tokens == 0:
        return routing.probabilities.sum()
    counts_E = torch.bincount(routing.experts.flatten(), minlength=num_experts)
    chosen = torch.zeros_like(routing.probabilities, dtype=torch.bool).scatter(1, routing.experts, True)
    felt = torch.where(chosen, routing.probabilities, routing.probabilities.detach())
    shares_E = counts_E.to(routing.probabilities.dtype) / routing.experts.numel()
    return num_experts * (shares_E * felt.mean(0)).sum()
    # endregion
