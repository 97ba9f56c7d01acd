"""Sends the chunk as it was given, also when its elements don't lie side by side.

law: collectives.ring.all_gather_rebuilds_the_whole
says: contiguous
"""
# region solution ring_all_gather
    size, rank = dist.get_world_size(group), dist.get_rank(group)
    right, left = (rank + 1) % size, (rank - 1) % size
    whole = chunk.new_empty(num_elements)
    chunks = whole.tensor_split(size)
    chunks[rank].copy_(chunk)
    outgoing = chunk
    for step in range(size - 1):
        incoming = chunks[(rank - step - 1) % size]
        exchange(outgoing, right, incoming, left, group)
        outgoing = incoming
    return whole
# endregion
