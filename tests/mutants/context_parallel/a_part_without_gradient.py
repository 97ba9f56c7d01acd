"""Detaches the part from the whole.

law: context_parallel.zigzag.splits_in_two_chunks
says: gradient
"""
# region solution zigzag_split
rank, num_chunks = dist.get_rank(group), 2 * dist.get_world_size(group)
if x.shape[dim] % num_chunks:
    raise ValueError(f"{x.shape[dim]} tokens can't be cut into {num_chunks} equal chunks")
chunks = x.chunk(num_chunks, dim)
# cat may keep a layout such as channels_last
return torch.cat([chunks[rank], chunks[num_chunks - 1 - rank]], dim).contiguous().detach()
# endregion
