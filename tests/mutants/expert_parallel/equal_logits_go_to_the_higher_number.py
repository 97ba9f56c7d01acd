"""Sorts upwards and reads from the end: of equal logits the expert with the higher number comes first.

law: expert_parallel.route.takes_the_largest_logits
says: lower
"""
    # region solution route
    num_tokens, num_experts = logits.shape
    experts = logits.detach().sort(dim=-1, stable=True).indices.flip(-1)[:, :top_k]
    probabilities = logits.to(torch.promote_types(logits.dtype, torch.float32)).softmax(-1)
    weights = probabilities.gather(1, experts)
    if renormalize:
        weights = weights / weights.sum(-1, keepdim=True)
    if capacity_factor is None:
        return Routing(probabilities, experts, weights, torch.ones_like(experts, dtype=torch.bool))
    capacity = expert_capacity(num_tokens, num_experts, top_k, capacity_factor)
    return Routing(probabilities, experts, weights, choices_with_room(experts, num_experts, capacity))
    # endregion
