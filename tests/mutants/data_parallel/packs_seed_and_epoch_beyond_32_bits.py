"""Packs seed and epoch into one large number, of which the generator keeps the low 32 bits: seeds 0 and 4096 have one order.

law: data_parallel.sharding.order_follows_seed_and_epoch
says: seed
"""
# region solution shard_indices
    order = list(range(num_samples))
    if shuffle:
        generator = torch.Generator().manual_seed((seed * 2**20 + epoch) % 2**63)
        order = torch.randperm(num_samples, generator=generator).tolist()
    if not order:
        return []
    per_rank = num_samples // world_size if drop_last else -(-num_samples // world_size)
    return [order[place % num_samples] for place in range(rank, per_rank * world_size, world_size)]
# endregion
