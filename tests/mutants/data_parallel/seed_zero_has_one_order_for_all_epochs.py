"""Mixes seed and epoch by a product: with seed 0, the default, every epoch has the same order.

law: data_parallel.sharding.order_follows_seed_and_epoch
says: epoch
"""
# region solution shard_indices
    order = list(range(num_samples))
    if shuffle:
        generator = torch.Generator().manual_seed(seed * (epoch + 1))
        order = torch.randperm(num_samples, generator=generator).tolist()
    if not order:
        return []
    per_rank = num_samples // world_size if drop_last else -(-num_samples // world_size)
    return [order[place % num_samples] for place in range(rank, per_rank * world_size, world_size)]
# endregion
