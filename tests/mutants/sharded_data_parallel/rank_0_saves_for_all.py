"""Gathers the whole state dict and lets rank 0 save it in as many pieces as there are ranks.

law: sharded_data_parallel.pieces.nothing_is_gathered
says: sent
"""
    # region solution save_sharded
    rank, world_size = dist.get_rank(fsdp.group), dist.get_world_size(fsdp.group)
    state = full_state_dict(fsdp, optimizer)
    if rank == 0:
        number = read_manifest(folder)["number"] + 1 if (folder / MANIFEST).exists() else 0
        pieces = folder / f"pieces-{number}"
        pieces.mkdir(parents=True, exist_ok=True)
        write_atomically(lambda path: torch.save(state, path), pieces / "rank-0.pt")
        manifest = {"number": number, "folder": pieces.name, "world_size": 1, "saved_by": world_size}
        write_atomically(lambda path: path.write_text(json.dumps(manifest)), folder / MANIFEST)
        for other in folder.glob("pieces-*"):
            if other != pieces:
                shutil.rmtree(other)
    barrier()
    # endregion
