"""Writes -1 in place of the expert of every choice that was dropped.

law: expert_parallel.route.takes_the_largest_logits
says: -1 in place
"""
    # region solution route
    num_tokens, num_experts = logits.shape
    experts = logits.detach().sort(dim=-1, descending=True, stable=True).indices[:, :top_k]
    probabilities = logits.to(torch.promote_types(logits.dtype, torch.float32)).softmax(-1)
    weights = probabilities.gather(1, experts)
    if renormalize:
        weights = weights / weights.sum(-1, keepdim=True)
    if capacity_factor is None:
        return Routing(probabilities, experts, weights, torch.ones_like(experts, dtype=torch.bool))
    capacity = expert_capacity(num_tokens, num_experts, top_k, capacity_factor)
    kept = choices_with_room(experts, num_experts, capacity)
    return Routing(probabilities, experts.masked_fill(~kept, -1), weights, kept)
    # endregion
