"""Walks along the line element range by element range, and leaves empty spans at a tensor's end."""
    # region solution shard_spans
    sizes = list(sizes)
    width = (sum(sizes) + world_size - 1) // world_size
    to_skip, to_take = rank * width, width
    spans = []
    for size in sizes:
        start = min(to_skip, size)
        stop = start + min(to_take, size - start)
        to_skip, to_take = to_skip - start, to_take - (stop - start)
        spans.append((start, stop))
    return spans
    # endregion
