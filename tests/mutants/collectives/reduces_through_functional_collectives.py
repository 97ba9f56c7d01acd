"""All-reduces with torch's functional collectives, imported by a string, and keeps its chunk.

law: collectives.ring.uses_point_to_point_only
says: collective
"""
# region solution ring_reduce_scatter
    import importlib

    functional = importlib.import_module("torch.distributed._functional" + "_collectives")
    size, rank = dist.get_world_size(group), dist.get_rank(group)
    total = functional.all_reduce(tensor.flatten().clone(), "max" if op == "max" else "sum", dist.group.WORLD if group is None else group)
    chunk = total.tensor_split(size)[rank].clone()
    if op == "mean":
        divide(chunk, size)
    return chunk
# endregion
