"""Fills up from the order's beginning, but never more than once around: too few where samples are fewer than half the ranks.

law: data_parallel.sharding.ranks_read_equally_many
says: rank
"""
# region solution shard_indices
    generator = torch.Generator().manual_seed(seed * 1_000_003 + epoch)
    order = torch.randperm(num_samples, generator=generator).tolist() if shuffle else list(range(num_samples))
    if drop_last:
        order = order[: num_samples // world_size * world_size]
    else:
        order += order[: -num_samples % world_size]
    return order[rank::world_size]
# endregion
