"""Sends a piece and waits for that before it starts to receive the next.

law: collectives.broadcast.is_pipelined
says: pipeline
"""
# region solution broadcast
    size, rank = dist.get_world_size(group), dist.get_rank(group)
    source = dist.get_group_rank(dist.group.WORLD if group is None else group, src)
    place = (rank - source) % size
    flat = tensor.contiguous().view(-1)
    for piece in flat.tensor_split(num_chunks):
        if piece.numel() == 0:
            continue
        if place > 0:
            dist.recv(piece, group=group, group_src=(rank - 1) % size)
        if place < size - 1:
            dist.send(piece, group=group, group_dst=(rank + 1) % size)
    if place > 0:
        tensor.copy_(flat.view(tensor.shape))
# endregion
