"""Takes the softmax in the logits' 16 bits and widens what was rounded already.

law: expert_parallel.route.half_precision_is_widened
says: float32
"""
    # region solution route
    num_tokens, num_experts = logits.shape
    experts = logits.detach().sort(dim=-1, descending=True, stable=True).indices[:, :top_k]
    probabilities = logits.softmax(-1).to(torch.promote_types(logits.dtype, torch.float32))
    weights = probabilities.gather(1, experts)
    if renormalize:
        weights = weights / weights.sum(-1, keepdim=True)
    if capacity_factor is None:
        return Routing(probabilities, experts, weights, torch.ones_like(experts, dtype=torch.bool))
    capacity = expert_capacity(num_tokens, num_experts, top_k, capacity_factor)
    return Routing(probabilities, experts, weights, choices_with_room(experts, num_experts, capacity))
    # endregion
