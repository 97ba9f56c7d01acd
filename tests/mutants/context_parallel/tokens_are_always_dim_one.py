"""Cuts along dim 1, whatever dim says.

law: context_parallel.zigzag.splits_in_two_chunks
says: dim
"""
    # region solution zigzag_split
    rank, num_chunks = dist.get_rank(group), 2 * dist.get_world_size(group)
    if x.shape[dim] % num_chunks:
        raise ValueError(f"{x.shape[dim]} tokens can't be cut into {num_chunks} equal chunks")
    chunks = x.chunk(num_chunks, 1)
    return torch.cat([chunks[rank], chunks[num_chunks - 1 - rank]], 1)
    # endregion
