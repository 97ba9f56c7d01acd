"""Pads each rank's part to a multiple of four rows, as grouped products like it, and takes the padding off on arrival.

law: expert_parallel.dispatch.sends_the_kept_rows_only
says: row
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
    sent_padded, received_padded = [-(-n // 4) * 4 for n in sent], [-(-n // 4) * 4 for n in received]
    parts = [F.pad(part, (0, 0, 0, -len(part) % 4)) for part in x[token].split(sent)]
    arrived = all_to_all_rows(torch.cat(parts), sent_padded, received_padded, group)
    arrived = torch.cat([part[:n] for part, n in zip(arrived.split(received_padded), received, strict=True)])
    labels = torch.arange(there_NL.shape[1], device=x.device).repeat(world_size).repeat_interleave(there_NL.flatten())
    arrival = labels.argsort(stable=True)
    back = WayBack(sent, received, token, routing.weights[token, choice], arrival, num_tokens, group)
    return Dispatched(arrived[arrival], there_NL.sum(0).tolist(), back)
    # endregion
