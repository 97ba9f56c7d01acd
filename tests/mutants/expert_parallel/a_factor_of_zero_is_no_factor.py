"""Asks whether there is a capacity factor by its truth: 0 drops nothing, like None.

law: expert_parallel.route.drops_in_the_stated_order
says: capacity
"""
    # region solution route
    num_tokens, num_experts = logits.shape
    experts = logits.detach().sort(dim=-1, descending=True, stable=True).indices[:, :top_k]
    probabilities = logits.to(torch.promote_types(logits.dtype, torch.float32)).softmax(-1)
    weights = probabilities.gather(1, experts)
    if renormalize:
        weights = weights / weights.sum(-1, keepdim=True)
    if not capacity_factor:
        return Routing(probabilities, experts, weights, torch.ones_like(experts, dtype=torch.bool))
    capacity = expert_capacity(num_tokens, num_experts, top_k, capacity_factor)
    return Routing(probabilities, experts, weights, choices_with_room(experts, num_experts, capacity))
    # endregion
