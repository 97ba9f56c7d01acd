"""Gathers all heads of all tokens and picks its own.

law: context_parallel.ulysses.exchanges_heads_for_tokens
says: all_gather
"""
    # region solution exchange
    rank, num_ranks = dist.get_rank(group), dist.get_world_size(group)
    arriving = [torch.empty_like(x, memory_format=torch.contiguous_format) for _ in range(num_ranks)]
    dist.all_gather(arriving, x.contiguous(), group=group)
    return torch.cat([part.chunk(num_ranks, cut)[rank] for part in arriving], join)
    # endregion
