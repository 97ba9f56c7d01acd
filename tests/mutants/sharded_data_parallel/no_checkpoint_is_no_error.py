"""Returns silently where there is no checkpoint.

law: sharded_data_parallel.pieces.earlier_one_stands
says: FileNotFoundError
"""
    # region solution load_sharded
    if not (folder / MANIFEST).exists():
        return
    manifest = read_manifest(folder)
    paths = [folder / manifest["folder"] / f"rank-{rank}.pt" for rank in range(manifest["world_size"])]
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
