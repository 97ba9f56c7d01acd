"""Leaves the part in the layout that the whole has.

law: context_parallel.zigzag.splits_in_two_chunks
says: not contiguous
"""
# region solution zigzag_split
rank, num_chunks = dist.get_rank(group), 2 * dist.get_world_size(group)
if x.shape[dim] % num_chunks:
    raise ValueError(f"{x.shape[dim]} tokens can't be cut into {num_chunks} equal chunks")
chunks = x.chunk(num_chunks, dim)
return torch.cat([chunks[rank], chunks[num_chunks - 1 - rank]], dim)
# endregion
