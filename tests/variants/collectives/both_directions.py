"""A ring in both directions: the first half of every chunk walks right and the second half left, in the same rounds.

With two ranks the right and left neighbour are the same, so that all of a chunk walks right there.
"""
# region solution ring_reduce_scatter
    size, rank = dist.get_world_size(group), dist.get_rank(group)
    ways = [(1, 0), (-1, 1)] if size > 2 else [(1, 0)]
    halves = [chunk.tensor_split(len(ways)) for chunk in tensor.flatten().clone().tensor_split(size)]
    for step in range(size - 1):
        works, arrivals = [], []
        for way, half in ways:
            mine = halves[(rank - way * (step + 2)) % size][half]
            arriving = torch.empty_like(mine)
            works.append(dist.irecv(arriving, group=group, group_src=(rank - way) % size))
            works.append(dist.isend(halves[(rank - way * (step + 1)) % size][half], group=group, group_dst=(rank + way) % size))
            arrivals.append((mine, arriving))
        for work in works:
            work.wait()
        for mine, arriving in arrivals:
            reduce_into(mine, arriving, op)
    total = torch.cat(halves[rank])
    if op == "mean":
        divide(total, size)
    return total
# endregion
# region solution ring_all_gather
    size, rank = dist.get_world_size(group), dist.get_rank(group)
    ways = [(1, 0), (-1, 1)] if size > 2 else [(1, 0)]
    whole = chunk.new_empty(num_elements)
    chunks = whole.tensor_split(size)
    chunks[rank].copy_(chunk)
    halves = [part.tensor_split(len(ways)) for part in chunks]
    for step in range(size - 1):
        works = []
        for way, half in ways:
            works.append(dist.isend(halves[(rank - way * step) % size][half], group=group, group_dst=(rank + way) % size))
            works.append(dist.irecv(halves[(rank - way * (step + 1)) % size][half], group=group, group_src=(rank - way) % size))
        for work in works:
            work.wait()
    return whole
# endregion
