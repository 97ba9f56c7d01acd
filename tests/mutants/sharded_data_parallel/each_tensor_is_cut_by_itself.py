"""Cuts every tensor in N parts instead of the line of all.

law: sharded_data_parallel.spans.ranges_follow_the_width
says: line
"""
# region solution shard_spans
    spans = []
    for size in sizes:
        width = -(-size // world_size)
        spans.append((min(rank * width, size), min((rank + 1) * width, size)))
    return spans
# endregion
