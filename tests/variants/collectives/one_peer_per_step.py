"""All-to-all with one peer per step, farthest first, each step ended before the next; the broadcast receives one piece ahead only.
The measurement does without a barrier, reduces one duration at a time and finds the median itself.
"""
# region solution broadcast
    size, rank = dist.get_world_size(group), dist.get_rank(group)
    members = dist.get_process_group_ranks(group)
    place = (rank - members.index(src)) % size
    strided = not tensor.is_contiguous()
    flat = tensor.reshape(-1).contiguous() if strided else tensor.view(-1)
    pieces = [piece for piece in flat.tensor_split(num_chunks) if len(piece)]

    def receive(k):
        return dist.irecv(pieces[k], group=group, group_src=(rank - 1) % size) if place > 0 and k < len(pieces) else None

    ahead, behind = receive(0), None
    for k, piece in enumerate(pieces):
        if ahead is not None:
            ahead.wait()
        ahead = receive(k + 1)
        if behind is not None:
            behind.wait()
        behind = dist.isend(piece, group=group, group_dst=(rank + 1) % size) if place < size - 1 else None
    if behind is not None:
        behind.wait()
    if strided and place > 0:
        tensor.copy_(flat.reshape(tensor.shape))
# endregion
# region solution all_to_all
    size, rank = dist.get_world_size(group), dist.get_rank(group)
    if input_splits is None:
        input_splits = (tensor.size(0) // size,) * size
    if output_splits is None:
        output_splits = (tensor.size(0) // size,) * size
    result = torch.zeros((sum(output_splits), *tensor.shape[1:]), dtype=tensor.dtype, device=tensor.device)
    first_in = [sum(input_splits[:i]) for i in range(size)]
    first_out = [sum(output_splits[:i]) for i in range(size)]
    for distance in reversed(range(size)):
        to, origin = (rank + distance) % size, (rank - distance) % size
        outgoing = tensor[first_in[to] : first_in[to] + input_splits[to]].contiguous()
        incoming = result[first_out[origin] : first_out[origin] + output_splits[origin]]
        if distance == 0:
            incoming.copy_(outgoing)
            continue
        works = []
        if incoming.numel():
            works.append(dist.irecv(incoming, group=group, group_src=origin))
        if outgoing.numel():
            works.append(dist.isend(outgoing, group=group, group_dst=to))
        for work in works:
            work.wait()
    return result
# endregion
# region solution measure_bus_bandwidth
    def timed(tensor):
        synchronize()
        before = clock()
        all_reduce(tensor, group=group)
        synchronize()
        after = clock()
        duration = torch.full((), after - before, dtype=torch.float64, device=device)
        ring_all_reduce(duration, op="max", group=group)
        return duration.item()

    curve = []
    for num_bytes in sizes_bytes:
        tensor = torch.rand(num_bytes // 4, device=device, dtype=torch.float32)
        for _ in range(num_warmup):
            all_reduce(tensor, group=group)
        slowest = sorted(timed(tensor) for _ in range(num_timed))
        seconds = (slowest[(num_timed - 1) // 2] + slowest[num_timed // 2]) / 2
        curve.append(BandwidthPoint(num_bytes, seconds, bus_bandwidth(num_bytes, seconds, dist.get_world_size(group))))
    return curve
# endregion
