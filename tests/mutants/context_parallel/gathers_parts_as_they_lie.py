"""Hands the network a part as it lies.

law: context_parallel.zigzag.restores_the_whole
says: contiguous
"""
# region solution zigzag_restore
num_ranks = dist.get_world_size(group)
parts = [torch.empty_like(x) for _ in range(num_ranks)]
dist.all_gather(parts, x.detach(), group=group)
# First chunks in the order of the ranks, then second ones from the last rank to the first.
halves = [part.chunk(2, dim) for part in parts]
return torch.cat([first for first, _ in halves] + [second for _, second in reversed(halves)], dim)
# endregion
