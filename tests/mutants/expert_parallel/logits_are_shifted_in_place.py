"""Subtracts the largest logit of each token in the caller's memory.

law: expert_parallel.route.logits_stay_as_they_were
says: logits
"""
    # region solution route
    num_tokens, num_experts = logits.shape
    experts = logits.detach().sort(dim=-1, descending=True, stable=True).indices[:, :top_k]
    logits.data.sub_(logits.detach().amax(-1, keepdim=True))
    probabilities = logits.to(torch.promote_types(logits.dtype, torch.float32)).softmax(-1)
    weights = probabilities.gather(1, experts)
    if renormalize:
        weights = weights / weights.sum(-1, keepdim=True)
    if capacity_factor is None:
        return Routing(probabilities, experts, weights, torch.ones_like(experts, dtype=torch.bool))
    capacity = expert_capacity(num_tokens, num_experts, top_k, capacity_factor)
    return Routing(probabilities, experts, weights, choices_with_room(experts, num_experts, capacity))
    # endregion
