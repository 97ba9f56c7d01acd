"""The source leaves out empty pieces and the others wait for them.

law: collectives.broadcast.every_rank_holds_the_source
says: mismatch
"""
# region solution broadcast
    size, rank = dist.get_world_size(group), dist.get_rank(group)
    source = dist.get_group_rank(dist.group.WORLD if group is None else group, src)
    place = (rank - source) % size
    right, left = (rank + 1) % size, (rank - 1) % size
    flat = tensor.contiguous().view(-1)
    pieces = [piece for piece in flat.tensor_split(num_chunks) if place > 0 or piece.numel() > 0]
    receives = [dist.irecv(piece, group=group, group_src=left) for piece in pieces] if place > 0 else []
    sends = []
    for k, piece in enumerate(pieces):
        if place > 0:
            receives[k].wait()
        if place < size - 1:
            sends.append(dist.isend(piece, group=group, group_dst=right))
    for send in sends:
        send.wait()
    if place > 0 and not tensor.is_contiguous():
        tensor.copy_(flat.view(tensor.shape))
# endregion
