"""Gives each rank a contiguous part.

law: context_parallel.zigzag.splits_in_two_chunks
says: contiguous
"""
# region solution zigzag_split
rank, num_chunks = dist.get_rank(group), 2 * dist.get_world_size(group)
if x.shape[dim] % num_chunks:
    raise ValueError(f"{x.shape[dim]} tokens can't be cut into {num_chunks} equal chunks")
chunks = x.chunk(num_chunks, dim)
return torch.cat([chunks[2 * rank], chunks[2 * rank + 1]], dim)
# endregion
