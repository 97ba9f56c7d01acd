"""Fills up to a multiple of the world size first and shuffles afterwards, so that the order depends on the number of ranks.

law: data_parallel.sharding.order_is_the_same_for_every_world_size
says: world size
"""
# region solution shard_indices
    per_rank = num_samples // world_size if drop_last else -(-num_samples // world_size)
    if not shuffle or per_rank == 0:
        return [place % num_samples for place in range(rank, per_rank * world_size, world_size)]
    generator = torch.Generator().manual_seed(seed * 1_000_003 + epoch)
    if drop_last:
        order = torch.randperm(num_samples, generator=generator)
    else:
        order = torch.randperm(per_rank * world_size, generator=generator) % num_samples
    return order[: per_rank * world_size].tolist()[rank::world_size]
# endregion
