"""Each rank reads the file of its own number, which holds for the same number of ranks only.

law: sharded_data_parallel.pieces.loads_into_any_world
says: load
"""
    # region solution load_sharded
    manifest = read_manifest(folder)
    path = folder / manifest["folder"] / f"rank-{dist.get_rank(fsdp.group)}.pt"
    mine = torch.load(path, map_location="cpu", weights_only=True)
    for name, shard in fsdp.named_shards().items():
        shard.data.copy_(mine["model"][name])
        if name in mine["optimizer"]:
            optimizer.state[shard] = dict(mine["optimizer"][name])
    # endregion
