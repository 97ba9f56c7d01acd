"""Has no folder for a save: pieces lie beside each other, named by its number, and go one by one when a newer manifest stands."""
    # region solution write_atomically
    partial = path.parent / f".{path.name}.new"
    write(partial)
    descriptor = os.open(partial, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
    os.rename(partial, path)
    # endregion
    # region solution save_sharded
    rank, world_size = dist.get_rank(fsdp.group), dist.get_world_size(fsdp.group)
    before = read_manifest(folder) if (folder / MANIFEST).exists() else {"number": -1, "files": []}
    folder.mkdir(parents=True, exist_ok=True)
    number = before["number"] + 1
    files = [f"save-{number}-of-{world_size}-rank-{other}.pt" for other in range(world_size)]
    rows = {
        name: {"weight": shard.detach().cpu().clone(), "state": dict(optimizer.state.get(shard, {}))}
        for name, shard in fsdp.named_shards().items()
    }
    write_atomically(lambda path: torch.save(rows, path), folder / files[rank])
    barrier()
    if rank == 0:
        manifest = {"number": number, "files": files}
        write_atomically(lambda path: path.write_text(json.dumps(manifest)), folder / MANIFEST)
        for name in before["files"]:
            if (folder / name).exists():
                os.remove(folder / name)
    barrier()
    # endregion
    # region solution load_sharded
    files = [torch.load(folder / name, map_location="cpu", weights_only=True) for name in read_manifest(folder)["files"]]
    for name, shard in fsdp.named_shards().items():
        rows = [file[name] for file in files]
        shard.data.copy_(fsdp.cut(name, torch.cat([row["weight"] for row in rows])))
        state = {}
        for key, value in rows[0]["state"].items():
            if isinstance(value, Tensor) and value.dim():
                value = fsdp.cut(name, torch.cat([row["state"][key] for row in rows])).to(shard.device)
            state[key] = value
        optimizer.state.pop(shard, None)
        if state:
            optimizer.state[shard] = state
    # endregion
