"""Gives the file its name and then fills it.

law: sharded_data_parallel.pieces.earlier_one_stands
says: checkpoint
"""
    # region solution write_atomically
    partial = path.with_name(path.name + ".partial")
    partial.touch()
    os.replace(partial, path)
    write(path)
    # endregion
