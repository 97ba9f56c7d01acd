"""Rounds the width down and lets the last rank have all that is left, which is everything where ranks outnumber elements.

law: sharded_data_parallel.spans.ranges_follow_the_width
says: element
"""
    # region solution shard_spans
    sizes = list(sizes)
    width = sum(sizes) // world_size
    first = rank * width
    last = sum(sizes) if rank == world_size - 1 else first + width
    spans, begins_at = [], 0
    for size in sizes:
        start, stop = (min(max(edge - begins_at, 0), size) for edge in (first, last))
        spans.append((start, stop))
        begins_at += size
    return spans
    # endregion
