"""No all_reduce in the functions: gradients go round a ring of sends and receives, states are scattered, counts gathered, orders drawn by numpy."""
# region solution shard_indices
    import numpy

    words = [seed % 2**32, seed >> 32, epoch]  # NumPy cuts what is larger in two: [0, epoch 1] would be the seed 2**32 of epoch 0
    order = numpy.random.default_rng(words).permutation(num_samples) if shuffle else numpy.arange(num_samples)
    count = num_samples // world_size if drop_last else (num_samples + world_size - 1) // world_size
    return [int(order[place % num_samples]) for place in range(rank, count * world_size, world_size)]
# endregion

# region solution all_reduce_gradients
    for parameter in parameters:
        flat_all_reduce_gradients([parameter], group)
# endregion

# region solution flat_all_reduce_gradients
    rank, size = dist.get_rank(group), dist.get_world_size(group)

    def go_round(flat):
        chunks = flat.tensor_split(size)
        for step in range(2 * size - 2):
            target = chunks[(rank - step - 1) % size]
            incoming = torch.empty_like(target)
            works = [
                dist.isend(chunks[(rank - step) % size].clone(), group=group, group_dst=(rank + 1) % size),
                dist.irecv(incoming, group=group, group_src=(rank - 1) % size),
            ]
            for work in works:
                work.wait()
            if step < size - 1:
                target += incoming
            else:
                target.copy_(incoming)

    together = {}
    for parameter in parameters:
        if parameter.requires_grad:
            together.setdefault(parameter.dtype, []).append(parameter)
    for alike in together.values():
        whole = torch.cat([torch.zeros(p.numel(), dtype=p.dtype) if p.grad is None else p.grad.flatten() for p in alike])
        go_round(whole.div_(size))
        start = 0
        for parameter in alike:
            mean = whole[start : start + parameter.numel()].reshape(parameter.shape)
            if parameter.grad is None:
                parameter.grad = mean.clone()
            else:
                parameter.grad.copy_(mean)
            start += parameter.numel()
# endregion

# region solution broadcast_module_state
    states = [tensor.data for tensor in list(module.parameters()) + list(module.buffers())]
    source = dist.get_process_group_ranks(group or dist.group.WORLD)[0]
    for state in states:
        copy = state.clone(memory_format=torch.contiguous_format)
        parts = [copy] * dist.get_world_size(group) if dist.get_rank() == source else None
        received = torch.empty_like(copy)
        dist.scatter(received, parts, src=source, group=group)
        state.copy_(received)
# endregion

# region solution mean_loss_scale
    mine = torch.tensor([num_tokens], dtype=torch.float64, device=device)
    counts = [torch.empty_like(mine) for _ in range(dist.get_world_size(group))]
    dist.all_gather(counts, mine, group=group)
    return len(counts) / sum(float(count) for count in counts)
# endregion
