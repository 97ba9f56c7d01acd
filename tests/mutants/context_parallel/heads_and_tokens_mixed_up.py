"""Joins what arrives along the heads.

law: context_parallel.ulysses.attention_equals_the_whole
says: differ
"""
# region solution exchange
leaving = torch.stack(x.chunk(dist.get_world_size(group), cut))  # contiguous, one part after the other
arriving = torch.empty_like(leaving)
dist.all_to_all_single(arriving, leaving, group=group)
return torch.cat(arriving.unbind(), cut).reshape([n * dist.get_world_size(group) if d == join else n // dist.get_world_size(group) if d == cut else n for d, n in enumerate(x.shape)])
# endregion
