"""Deals heads out one by one, which parts grouped query heads from their keys.

law: context_parallel.ulysses.attention_equals_the_whole
says: output
"""
    # region solution exchange
    num_ranks = dist.get_world_size(group)
    leaving = torch.stack([x[:, rank::num_ranks] for rank in range(num_ranks)] if cut == 1 else x.chunk(num_ranks, cut))
    arriving = torch.empty_like(leaving)
    dist.all_to_all_single(arriving, leaving, group=group)
    if join == 1:
        return torch.stack(arriving.unbind(), 2).flatten(1, 2)
    return torch.cat(arriving.unbind(), join)
    # endregion
