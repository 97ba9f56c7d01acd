"""Joins the second chunks in the order of the ranks, though they lie the other way round.

law: context_parallel.zigzag.restores_the_whole
says: whole
"""
    # region solution zigzag_restore
    num_ranks = dist.get_world_size(group)
    parts = [torch.empty_like(x, memory_format=torch.contiguous_format) for _ in range(num_ranks)]
    dist.all_gather(parts, x.detach().contiguous(), group=group)
    halves = [part.chunk(2, dim) for part in parts]
    return torch.cat([first for first, _ in halves] + [second for _, second in halves], dim)
    # endregion
