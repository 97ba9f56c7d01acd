"""Reads the pieces in the order of their names, where rank-10 comes before rank-2.

law: sharded_data_parallel.pieces.loads_into_any_world
says: load
"""
    # region solution load_sharded
    manifest = read_manifest(folder)
    paths = sorted((folder / manifest["folder"]).glob("rank-*.pt"))
    # Mapped, not read: only what is cut out below is brought in from the disk.
    files = [torch.load(path, map_location="cpu", weights_only=True, mmap=True) for path in paths]
    for name, shard in fsdp.named_shards().items():
        # A tensor's pieces, in the order of the ranks, laid end to end are the tensor.
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
