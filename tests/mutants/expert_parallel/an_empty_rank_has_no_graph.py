"""Returns a plain zero where there are no tokens: its backward has nothing to go through.

law: expert_parallel.balance.gradient_goes_through_probabilities
says: gradient
"""
    # region solution load_balancing_loss
    num_tokens, num_experts = routing.probabilities.shape
    if num_tokens == 0:
        return routing.probabilities.new_zeros(())
    counts_E = torch.bincount(routing.experts.flatten(), minlength=num_experts)
    shares_E = counts_E.to(routing.probabilities.dtype) / routing.experts.numel()
    return num_experts * (shares_E * routing.probabilities.mean(0)).sum()
    # endregion
