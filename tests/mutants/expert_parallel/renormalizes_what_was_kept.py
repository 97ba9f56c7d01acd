"""Divides by the sum of the kept weights, after dropping.

law: expert_parallel.route.weights_are_probabilities
says: sum of the kept choices only
"""
    # region solution route
    num_tokens, num_experts = logits.shape
    experts = logits.detach().sort(dim=-1, descending=True, stable=True).indices[:, :top_k]
    probabilities = logits.to(torch.promote_types(logits.dtype, torch.float32)).softmax(-1)
    weights = probabilities.gather(1, experts)
    kept = torch.ones_like(experts, dtype=torch.bool)
    if capacity_factor is not None:
        capacity = expert_capacity(num_tokens, num_experts, top_k, capacity_factor)
        kept = choices_with_room(experts, num_experts, capacity)
    if renormalize:
        total = (weights * kept).sum(-1, keepdim=True)
        weights = weights / torch.where(total > 0, total, torch.ones_like(total))
    return Routing(probabilities, experts, weights, kept)
    # endregion
