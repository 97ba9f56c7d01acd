"""Takes topk, which promises no order among equal logits.

law: expert_parallel.route.takes_the_largest_logits
says: equal, and not the one with the lower number
"""
    # region solution route
    num_tokens, num_experts = logits.shape
    experts = logits.detach().topk(top_k, dim=-1).indices
    probabilities = logits.to(torch.promote_types(logits.dtype, torch.float32)).softmax(-1)
    weights = probabilities.gather(1, experts)
    if renormalize:
        weights = weights / weights.sum(-1, keepdim=True)
    if capacity_factor is None:
        return Routing(probabilities, experts, weights, torch.ones_like(experts, dtype=torch.bool))
    capacity = expert_capacity(num_tokens, num_experts, top_k, capacity_factor)
    return Routing(probabilities, experts, weights, choices_with_room(experts, num_experts, capacity))
    # endregion
