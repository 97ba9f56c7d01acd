"""One unique integer key for each kept choice tells rank, expert and token; what arrives is put in order by scattering, not by sorting."""
    # region solution dispatch
    (num_tokens, num_experts), world_size = routing.probabilities.shape, dist.get_world_size(group)
    if num_experts % world_size:
        raise ValueError(f"{world_size} ranks can't share {num_experts} experts evenly")
    keys = routing.experts * max(num_tokens, 1) + torch.arange(num_tokens, device=x.device)[:, None]
    keys = torch.where(routing.kept, keys, num_experts * max(num_tokens, 1)).flatten()
    which = keys.argsort()[: int(routing.kept.sum())]
    token = which // routing.experts.shape[1]
    here = torch.zeros(num_experts, dtype=torch.int64, device=x.device)
    here.index_add_(0, routing.experts.flatten()[which], torch.ones_like(which))
    there = exchange_counts(here, group)
    sent, received = here.view(world_size, -1).sum(1).tolist(), there.sum(1).tolist()
    arrived = all_to_all_rows(x[token], sent, received, group)
    # Block (rank, expert) begins at one place on arrival and at another one in rows.
    by_rank = (there.flatten().cumsum(0) - there.flatten()).view_as(there)
    by_expert = (there.t().flatten().cumsum(0) - there.t().flatten()).view(there.shape[1], world_size).t()
    shift = (by_expert - by_rank).flatten().repeat_interleave(there.flatten())
    target = torch.arange(len(shift), device=x.device) + shift
    rows = torch.zeros_like(arrived).index_copy(0, target, arrived)
    back = WayBack(sent, received, token, routing.weights.flatten()[which], target, num_tokens, group)
    return Dispatched(rows, [int(n) for n in there.sum(0)], back)
    # endregion
    # region solution combine
    back = dispatched.back
    home = all_to_all_rows(outputs.index_select(0, back.arrival_R), back.received, back.sent, back.group)
    product = home.to(back.weight_S.dtype).mul(back.weight_S.unsqueeze(-1))
    where = back.token_S.unsqueeze(-1).expand_as(product)
    return product.new_zeros(back.num_tokens, product.shape[1]).scatter_add(0, where, product).to(outputs.dtype)
    # endregion
