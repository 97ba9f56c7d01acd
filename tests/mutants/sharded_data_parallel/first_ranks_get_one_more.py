"""Balances like numpy's array_split: the first n % N ranks have one element more than the others.

law: sharded_data_parallel.spans.ranges_follow_the_width
says: element
"""
    # region solution shard_spans
    sizes = list(sizes)
    least, rest = divmod(sum(sizes), world_size)
    first = rank * least + min(rank, rest)
    last = first + least + (rank < rest)
    spans, begins_at = [], 0
    for size in sizes:
        start, stop = (min(max(edge - begins_at, 0), size) for edge in (first, last))
        spans.append((start, stop))
        begins_at += size
    return spans
    # endregion
