"""Takes the argmax K times, counts the queue in a Python loop, and rounds the capacity as a fraction."""
    # region solution expert_capacity
    from fractions import Fraction

    return math.ceil(Fraction(capacity_factor) * num_tokens * top_k / num_experts)
    # endregion
    # region solution choices_with_room
    room = [capacity] * num_experts
    kept = torch.zeros(experts_TK.shape, dtype=torch.bool)
    for choice, column in enumerate(experts_TK.t().tolist()):
        for token, expert in enumerate(column):
            kept[token, choice] = room[expert] > 0
            room[expert] -= 1
    return kept.to(experts_TK.device)
    # endregion
    # region solution route
    left = logits.detach().clone()
    columns = []
    for _ in range(top_k):
        columns.append(left.argmax(-1))  # of equal ones the first
        left = left.scatter(-1, columns[-1][:, None], float("-inf"))
    experts = torch.stack(columns, -1)
    wide = logits if logits.dtype == torch.float64 else logits.float()
    log_probabilities = wide.log_softmax(-1)
    weights = log_probabilities.gather(1, experts)
    weights = weights.softmax(-1) if renormalize else weights.exp()
    capacity = len(logits) if capacity_factor is None else expert_capacity(*logits.shape, top_k, capacity_factor)
    return Routing(log_probabilities.exp(), experts, weights, choices_with_room(experts, logits.shape[1], capacity))
    # endregion
