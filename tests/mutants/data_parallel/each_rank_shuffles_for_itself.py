"""Seeds the generator with the rank too, so that every rank cuts its share out of another order.

law: data_parallel.sharding.every_sample_is_read
says: sample
"""
# region solution shard_indices
    order = list(range(num_samples))
    if shuffle:
        generator = torch.Generator().manual_seed((seed * 1_000_003 + epoch) * world_size + rank)
        order = torch.randperm(num_samples, generator=generator).tolist()
    if not order:
        return []
    per_rank = num_samples // world_size if drop_last else -(-num_samples // world_size)
    return [order[place % num_samples] for place in range(rank, per_rank * world_size, world_size)]
# endregion
