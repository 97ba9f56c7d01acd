"""Holds start above 0 and stop below size, but not the other way round: outside of the rank's range spans are negative.

law: sharded_data_parallel.spans.every_element_has_one_owner
says: span
"""
    # region solution shard_spans
    sizes = list(sizes)
    width = -(-sum(sizes) // world_size)
    spans, begins_at = [], 0
    for size in sizes:
        # The rank's range, seen from this tensor's first element, and cut to what the tensor has.
        start, stop = max(rank * width - begins_at, 0), min((rank + 1) * width - begins_at, size)
        spans.append((start, stop))
        begins_at += size
    return spans
    # endregion
