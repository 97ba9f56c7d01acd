"""Cuts what arrived into parts by rank and expert and joins them anew; at home each row gets a place of (T, K), and K is summed over."""
    # region solution dispatch
    num_ranks, num_experts = dist.get_world_size(group), routing.probabilities.shape[1]
    if num_experts % num_ranks != 0:
        raise ValueError(f"E = {num_experts} is no multiple of N = {num_ranks}")
    top_k = routing.experts.shape[1]
    queues = [(routing.kept & (routing.experts == expert)).flatten().nonzero()[:, 0] for expert in range(num_experts)]
    places = torch.cat(queues)
    counts = torch.tensor([len(queue) for queue in queues], device=x.device)
    theirs = exchange_counts(counts, group).tolist()
    leaving = [sum(part) for part in counts.view(num_ranks, -1).tolist()]
    coming = [sum(part) for part in theirs]
    landed = all_to_all_rows(x.index_select(0, places // top_k), leaving, coming, group)
    parts = landed.split([n for part in theirs for n in part])
    per_rank = num_experts // num_ranks
    rows = torch.cat([parts[rank * per_rank + own] for own in range(per_rank) for rank in range(num_ranks)])
    back = {"places": places, "leaving": leaving, "coming": coming, "theirs": theirs, "weights": routing.weights, "group": group}
    return Dispatched(rows, [sum(column) for column in zip(*theirs, strict=True)], back)
    # endregion
    # region solution combine
    back = dispatched.back
    theirs, weights = back["theirs"], back["weights"]
    parts = outputs.split([n for column in zip(*theirs, strict=True) for n in column])
    num_ranks = len(theirs)
    joined = torch.cat([parts[own * num_ranks + rank] for rank in range(num_ranks) for own in range(len(theirs[0]))])
    home = all_to_all_rows(joined, back["coming"], back["leaving"], back["group"])
    table = home.new_zeros((weights.numel(), home.shape[1])).index_copy(0, back["places"], home)
    table = table.to(weights.dtype).view(*weights.shape, home.shape[1])
    return (table * weights[..., None]).sum(1).to(outputs.dtype)
    # endregion
