"""Lets an expert keep the choices with the largest weights instead of the first ones in the queue.

law: expert_parallel.route.drops_in_the_stated_order
says: order
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
    kept = torch.zeros_like(experts, dtype=torch.bool)
    for expert in range(num_experts):
        token, choice = (experts == expert).nonzero(as_tuple=True)
        best = weights.detach()[token, choice].argsort(descending=True)[:capacity]
        kept[token[best], choice[best]] = True
    return Routing(probabilities, experts, weights, kept)
    # endregion
