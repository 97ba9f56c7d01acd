"""Sends the rows of dropped choices too, and weighs them by 0.

law: expert_parallel.dispatch.sends_the_kept_rows_only
says: dropped ones travel too
"""
    # region solution dispatch
    num_tokens, num_experts = routing.probabilities.shape
    world_size = dist.get_world_size(group)
    if num_experts % world_size:
        raise ValueError(f"{num_experts} experts can't be spread evenly over {world_size} ranks")
    token, choice = torch.ones_like(routing.kept).nonzero(as_tuple=True)
    expert, order = routing.experts[token, choice].sort(stable=True)
    token, choice = token[order], choice[order]
    here_E = torch.bincount(expert, minlength=num_experts)
    there_NL = exchange_counts(here_E, group)
    sent = here_E.view(world_size, -1).sum(1).tolist()
    received = there_NL.sum(1).tolist()
    arrived = all_to_all_rows(x[token], sent, received, group)
    labels = torch.arange(there_NL.shape[1], device=x.device).repeat(world_size).repeat_interleave(there_NL.flatten())
    arrival = labels.argsort(stable=True)
    back = WayBack(sent, received, token, (routing.weights * routing.kept)[token, choice], arrival, num_tokens, group)
    return Dispatched(arrived[arrival], there_NL.sum(0).tolist(), back)
    # endregion
