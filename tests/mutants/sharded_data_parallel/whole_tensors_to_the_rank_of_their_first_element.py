"""Never cuts a tensor: it belongs, whole, to the rank in whose range it begins.

law: sharded_data_parallel.spans.ranges_follow_the_width
says: element
"""
    # region solution shard_spans
    sizes = list(sizes)
    width = max(-(-sum(sizes) // world_size), 1)
    spans, begins_at = [], 0
    for size in sizes:
        owner = min(begins_at // width, world_size - 1)
        spans.append((0, size) if owner == rank else (0, 0))
        begins_at += size
    return spans
    # endregion
