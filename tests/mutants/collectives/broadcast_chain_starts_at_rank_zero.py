"""The chain is the source and then the others from rank 0 on, instead of the source's right neighbour.

law: collectives.broadcast.each_link_carries_the_tensor_once
says: neighbour
"""
# region solution broadcast
    size, rank = dist.get_world_size(group), dist.get_rank(group)
    source = dist.get_group_rank(dist.group.WORLD if group is None else group, src)
    chain = [source] + [r for r in range(size) if r != source]
    place = chain.index(rank)
    right, left = chain[(place + 1) % size], chain[place - 1]
    flat = tensor.contiguous().view(-1)
    pieces = [piece for piece in flat.tensor_split(num_chunks) if piece.numel() > 0]
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
