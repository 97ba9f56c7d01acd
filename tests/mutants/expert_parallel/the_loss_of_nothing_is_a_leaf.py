"""Without tokens returns a zero that asks for a gradient but comes from nothing.

law: expert_parallel.balance.gradient_goes_through_probabilities
says: no graph
"""
# region solution load_balancing_loss
num_tokens, num_experts = routing.probabilities.shape
if num_tokens == 0:
    return routing.probabilities.new_zeros((), requires_grad=True)
counts_E = torch.bincount(routing.experts.flatten(), minlength=num_experts)
shares_E = counts_E.to(routing.probabilities.dtype) / routing.experts.numel()
# Counts have no gradient. P has: where f is large, the probabilities are pushed down.
return num_experts * (shares_E * routing.probabilities.mean(0)).sum()
# endregion
