"""Batches and blocking calls instead of isend and wait: exchange is one batch_isend_irecv with global ranks, the broadcast moves in
lock step by batches, all-to-all is a single batch, and recursive doubling posts a receive and then sends with a blocking send.
"""
# region solution exchange
    world = group if group is not None else dist.group.WORLD
    to, origin = dist.get_global_rank(world, send_to), dist.get_global_rank(world, receive_from)
    for work in dist.batch_isend_irecv([dist.P2POp(dist.irecv, incoming, origin, group), dist.P2POp(dist.isend, outgoing, to, group)]):
        work.wait()
# endregion
# region solution broadcast
    members = dist.get_process_group_ranks(group if group is not None else dist.group.WORLD)
    first = members.index(src)
    chain = members[first:] + members[:first]
    place = chain.index(dist.get_rank())
    buffer = tensor.detach().clone(memory_format=torch.contiguous_format).view(-1)
    pieces = [piece for piece in buffer.tensor_split(num_chunks) if piece.numel() > 0]
    for tick in range(len(pieces) + 1):
        batch = []
        if place > 0 and tick < len(pieces):
            batch.append(dist.P2POp(dist.irecv, pieces[tick], chain[place - 1], group))
        if place + 1 < len(chain) and tick > 0:
            batch.append(dist.P2POp(dist.isend, pieces[tick - 1], chain[place + 1], group))
        for work in dist.batch_isend_irecv(batch) if batch else []:
            work.wait()
    if place > 0:
        tensor.copy_(buffer.view_as(tensor))
# endregion
# region solution all_to_all
    members = dist.get_process_group_ranks(group if group is not None else dist.group.WORLD)
    me = members.index(dist.get_rank())
    equal = [len(tensor) // len(members)] * len(members)
    outgoing = [block.contiguous() for block in tensor.split(list(input_splits or equal))]
    incoming = [tensor.new_empty((rows, *tensor.shape[1:])) for rows in output_splits or equal]
    incoming[me].copy_(outgoing[me])
    batch = [dist.P2POp(dist.isend, block, peer, group) for block, peer in zip(outgoing, members) if peer != members[me] and block.numel()]
    batch += [dist.P2POp(dist.irecv, block, peer, group) for block, peer in zip(incoming, members) if peer != members[me] and block.numel()]
    for work in dist.batch_isend_irecv(batch) if batch else []:
        work.wait()
    return torch.cat(incoming)
# endregion
# region solution recursive_doubling_all_reduce
    members = dist.get_process_group_ranks(group if group is not None else dist.group.WORLD)
    me, size = members.index(dist.get_rank()), len(members)
    doubling = 2 ** (size.bit_length() - 1)
    mine = tensor.contiguous().clone()
    theirs = torch.empty_like(mine)
    if me < doubling:
        if me + doubling < size:
            dist.recv(theirs, members[me + doubling], group=group)
            reduce_into(mine, theirs, op)
        for k in range(size.bit_length() - 1):
            partner = members[me ^ 2**k]
            arriving = dist.irecv(theirs, partner, group=group)
            dist.send(mine, partner, group=group)
            arriving.wait()
            reduce_into(mine, theirs, op)
        if op == "mean":
            divide(mine, size)
        if me + doubling < size:
            dist.send(mine, members[me + doubling], group=group)
    else:
        dist.send(mine, members[me - doubling], group=group)
        dist.recv(mine, members[me - doubling], group=group)
    tensor.copy_(mine)
# endregion
