"""Leaves the optimizer its moments where the checkpoint, from before the first step, has none.

law: sharded_data_parallel.pieces.loads_into_any_world
says: checkpoint
"""
    # region solution load_sharded
    manifest = read_manifest(folder)
    paths = [folder / manifest["folder"] / f"rank-{rank}.pt" for rank in range(manifest["world_size"])]
    files = [torch.load(path, map_location="cpu", weights_only=True, mmap=True) for path in paths]
    for name, shard in fsdp.named_shards().items():
        parts = [file["model"][name] for file in files]
        shard.data.copy_(fsdp.cut(name, torch.cat([part.reshape(-1) for part in parts])))
        states = [file["optimizer"].get(name, {}) for file in files]
        mine = {}
        for key, value in states[0].items():
            if is_cut(value, parts[0]):
                value = fsdp.cut(name, torch.cat([state[key].reshape(-1) for state in states])).to(shard.device)
            mine[key] = value.clone() if isinstance(value, Tensor) else value
        if mine:
            optimizer.state[shard] = mine
    # endregion
