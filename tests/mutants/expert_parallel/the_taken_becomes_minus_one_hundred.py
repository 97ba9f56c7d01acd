"""Takes the argmax K times and puts -100 in place of what was taken, which is not below every finite logit.

law: expert_parallel.route.takes_the_largest_logits
says: one expert twice
"""
    # region solution route
    num_tokens, num_experts = logits.shape
    left, chosen = logits.detach().clone(), []
    for _ in range(top_k):
        chosen.append(left.argmax(-1))
        left.scatter_(-1, chosen[-1][:, None], -100.0)
    experts = torch.stack(chosen, -1)
    probabilities = logits.to(torch.promote_types(logits.dtype, torch.float32)).softmax(-1)
    weights = probabilities.gather(1, experts)
    if renormalize:
        weights = weights / weights.sum(-1, keepdim=True)
    if capacity_factor is None:
        return Routing(probabilities, experts, weights, torch.ones_like(experts, dtype=torch.bool))
    capacity = expert_capacity(num_tokens, num_experts, top_k, capacity_factor)
    return Routing(probabilities, experts, weights, choices_with_room(experts, num_experts, capacity))
    # endregion
