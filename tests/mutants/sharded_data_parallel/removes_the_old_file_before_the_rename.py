"""Removes the old manifest to make room for the new one's name.

law: sharded_data_parallel.pieces.earlier_one_stands
says: checkpoint
"""
    # region solution write_atomically
    partial = path.with_name(path.name + ".partial")
    write(partial)
    with partial.open("rb") as file:
        os.fsync(file.fileno())
    if path.exists():
        os.remove(path)
    os.rename(partial, path)
    # endregion
