"""Draws from the global generator and puts the global seed back, but not how far the generator had come.

law: data_parallel.sharding.leaves_the_global_generator_alone
says: random
"""
# region solution shard_indices
    order = list(range(num_samples))
    if shuffle:
        global_seed = torch.initial_seed()
        torch.manual_seed(seed * 1_000_003 + epoch)
        order = torch.randperm(num_samples).tolist()
        torch.manual_seed(global_seed)
    if not order:
        return []
    per_rank = num_samples // world_size if drop_last else -(-num_samples // world_size)
    return [order[place % num_samples] for place in range(rank, per_rank * world_size, world_size)]
# endregion
