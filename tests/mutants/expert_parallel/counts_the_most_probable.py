"""Counts the most probable experts, and not those that were chosen.

law: expert_parallel.balance.equals_its_formula
says: loss
"""
# region solution load_balancing_loss
num_tokens, num_experts = routing.probabilities.shape
if num_tokens == 0:
    return routing.probabilities.sum()  # 0, with a graph: a mean of nothing would be NaN
counts_E = torch.bincount(routing.probabilities.topk(routing.experts.shape[1]).indices.flatten(), minlength=num_experts)
shares_E = counts_E.to(routing.probabilities.dtype) / routing.experts.numel()
# Counts have no gradient. P has: where f is large, the probabilities are pushed down.
return num_experts * (shares_E * routing.probabilities.mean(0)).sum()
# endregion
