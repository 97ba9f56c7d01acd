"""The source sends the tensor to each rank itself.

law: collectives.broadcast.each_link_carries_the_tensor_once
says: neighbour
"""
# region solution broadcast
    size, rank = dist.get_world_size(group), dist.get_rank(group)
    source = dist.get_group_rank(dist.group.WORLD if group is None else group, src)
    flat = tensor.contiguous().view(-1)
    works = []
    for piece in flat.tensor_split(num_chunks):
        if piece.numel() == 0:
            continue
        if rank == source:
            works += [dist.isend(piece, group=group, group_dst=other) for other in range(size) if other != source]
        else:
            works.append(dist.irecv(piece, group=group, group_src=source))
    for work in works:
        work.wait()
    if rank != source:
        tensor.copy_(flat.view(tensor.shape))
# endregion
