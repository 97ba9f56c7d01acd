"""Rounds the width of a range down, so that the last elements belong to nobody.

law: sharded_data_parallel.spans.every_element_has_one_owner
says: owner
"""
# region solution shard_spans
    sizes = list(sizes)
    width = max(1, sum(sizes) // world_size)
    spans, begins_at = [], 0
    for size in sizes:
        start, stop = (min(max(edge - begins_at, 0), size) for edge in (rank * width, (rank + 1) * width))
        spans.append((start, stop))
        begins_at += size
    return spans
# endregion
