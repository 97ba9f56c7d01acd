"""Rounds the width down and gives the rest to the last rank.

law: sharded_data_parallel.spans.ranges_follow_the_width
says: width
"""
# region solution shard_spans
    sizes = list(sizes)
    width = sum(sizes) // world_size
    spans, begins_at = [], 0
    for size in sizes:
        start, stop = (min(max(edge - begins_at, 0), size) for edge in (rank * width, (rank + 1) * width if rank < world_size - 1 else sum(sizes)))
        spans.append((start, stop))
        begins_at += size
    return spans
# endregion
