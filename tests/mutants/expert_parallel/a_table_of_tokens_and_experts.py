"""Spreads what came home over a table of all tokens and all experts, and sums over the experts.

law: expert_parallel.dispatch.holds_rows_and_no_mask
says: memory
"""
    # region solution dispatch
    num_tokens, num_experts = routing.probabilities.shape
    world_size = dist.get_world_size(group)
    if num_experts % world_size:
        raise ValueError(f"{num_experts} experts can't be spread evenly over {world_size} ranks")
    token, choice = routing.kept.nonzero(as_tuple=True)
    expert, order = routing.experts[token, choice].sort(stable=True)
    token, choice = token[order], choice[order]
    here_E = torch.bincount(expert, minlength=num_experts)
    there_NL = exchange_counts(here_E, group)
    sent = here_E.view(world_size, -1).sum(1).tolist()
    received = there_NL.sum(1).tolist()
    arrived = all_to_all_rows(x[token], sent, received, group)
    labels = torch.arange(there_NL.shape[1], device=x.device).repeat(world_size).repeat_interleave(there_NL.flatten())
    arrival = labels.argsort(stable=True)
    seat = token * num_experts + expert
    back = WayBack(sent, received, token, routing.weights[token, choice], arrival, num_tokens, group), seat, num_experts
    return Dispatched(arrived[arrival], there_NL.sum(0).tolist(), back)
    # endregion
    # region solution combine
    back, seat, num_experts = dispatched.back
    as_arrived = outputs[back.arrival_R.argsort()]
    home = all_to_all_rows(as_arrived, back.received, back.sent, back.group)
    weighted = home.to(back.weight_S.dtype) * back.weight_S[:, None]
    table = weighted.new_zeros((back.num_tokens * num_experts, weighted.shape[1])).index_add(0, seat, weighted)
    return table.view(back.num_tokens, num_experts, -1).sum(1).to(outputs.dtype) if back.num_tokens else table.to(outputs.dtype)
    # endregion
