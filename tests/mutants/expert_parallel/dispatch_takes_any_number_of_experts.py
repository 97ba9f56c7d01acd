"""Does not look whether the experts can be spread evenly, and leaves it to torch to complain about sizes.

law: expert_parallel.layer.uneven_experts_are_refused
says: ValueError
"""
    # region solution dispatch
    num_tokens, num_experts = routing.probabilities.shape
    world_size = dist.get_world_size(group)
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
    return Dispatched(arrived[arrival], there_NL.sum(0).tolist(), back)
    # endregion
