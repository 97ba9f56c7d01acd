"""Divides without rounding up, so the elements that are left over belong to nobody.

law: sharded_data_parallel.spans.every_element_has_one_owner
says: element
"""
    # region solution shard_spans
    sizes = list(sizes)
    width = sum(sizes) // world_size
    spans, begins_at = [], 0
    for size in sizes:
        # The rank's range, seen from this tensor's first element, and cut to what the tensor has.
        start, stop = (min(max(edge - begins_at, 0), size) for edge in (rank * width, (rank + 1) * width))
        spans.append((start, stop))
        begins_at += size
    return spans
    # endregion
