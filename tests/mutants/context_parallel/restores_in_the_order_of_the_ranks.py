"""Joins the parts as they come.

law: context_parallel.zigzag.restores_the_whole
says: whole
"""
# region solution zigzag_restore
num_ranks = dist.get_world_size(group)
parts = [torch.empty_like(x, memory_format=torch.contiguous_format) for _ in range(num_ranks)]
dist.all_gather(parts, x.detach().contiguous(), group=group)
# First chunks in the order of the ranks, then second ones from the last rank to the first.
halves = [part.chunk(2, dim) for part in parts]
return torch.cat([half for pair in halves for half in pair], dim)
# endregion
