"""Hands a token without any expert on as it came, as if the residual connection were here.

law: expert_parallel.dispatch.combine_weighs_and_adds_up
says: zero
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
    back = WayBack(sent, received, token, routing.weights[token, choice], arrival, num_tokens, group)
    lost = x * ~routing.kept.any(-1, keepdim=True)
    return Dispatched(arrived[arrival], there_NL.sum(0).tolist(), (back, lost))
    # endregion
    # region solution combine
    back, lost = dispatched.back
    as_arrived = outputs[back.arrival_R.argsort()]
    home = all_to_all_rows(as_arrived, back.received, back.sent, back.group)
    weighted = home.to(back.weight_S.dtype) * back.weight_S[:, None]
    total = weighted.new_zeros((back.num_tokens, weighted.shape[1])).index_add(0, back.token_S, weighted)
    return total.to(outputs.dtype) + lost.to(outputs.dtype) if lost.shape == total.shape else total.to(outputs.dtype)
    # endregion
