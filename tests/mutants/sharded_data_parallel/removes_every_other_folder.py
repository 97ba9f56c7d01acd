"""Removes all folders beside its own pieces, and takes them for old pieces.

law: sharded_data_parallel.pieces.earlier_one_stands
says: deleted
"""
    # region solution save_sharded
    rank, world_size = dist.get_rank(fsdp.group), dist.get_world_size(fsdp.group)
    # Nothing that exists is written to: the pieces go to a new folder, which counts only when the manifest names it.
    number = read_manifest(folder)["number"] + 1 if (folder / MANIFEST).exists() else 0
    pieces = folder / f"pieces-{number}"
    pieces.mkdir(parents=True, exist_ok=True)  # left by a save that was killed, or made by another rank
    model = {name: shard.detach().cpu() for name, shard in fsdp.named_shards().items()}
    saved = {"model": model, "optimizer": optimizer_states(fsdp, optimizer)}
    write_atomically(lambda path: torch.save(saved, path), pieces / f"rank-{rank}.pt")

    barrier()  # all pieces are on the disk ...
    if rank == 0:
        manifest = {"number": number, "folder": pieces.name, "world_size": world_size}
        write_atomically(lambda path: path.write_text(json.dumps(manifest)), folder / MANIFEST)  # ... and with this one file they count
        for other in folder.iterdir():
            if other.is_dir() and other != pieces:
                shutil.rmtree(other)
    barrier()  # nobody believes in a checkpoint that rank 0 has not finished
    # endregion
