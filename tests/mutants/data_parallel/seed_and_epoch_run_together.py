"""Seeds by the digits of seed and epoch, one behind the other: epoch 11 of seed 1 has the order of epoch 1 of seed 11.

law: data_parallel.sharding.order_follows_seed_and_epoch
says: Another seed or epoch gives the same order
"""
    # region solution shard_indices
    order = list(range(num_samples))
    if shuffle:
        digest = hashlib.sha256(f"{seed}{epoch}".encode()).digest()
        generator = torch.Generator().manual_seed(int.from_bytes(digest[:4], "little"))
        order = torch.randperm(num_samples, generator=generator).tolist()
    per_rank = num_samples // world_size if drop_last else -(-num_samples // world_size)
    total = per_rank * world_size
    repeats = -(-total // num_samples) if num_samples else 0
    return (order * repeats)[:total][rank::world_size]
    # endregion
