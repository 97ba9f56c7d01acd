"""Blocks in several calls of the kernel, merging by weights over a row's maximum, and zigzag by indices and broadcasts."""
    # region solution merge_attention
    a, b = wide(lse_a), wide(lse_b)
    largest = torch.maximum(a, b)
    origin = torch.where(largest == -math.inf, torch.zeros_like(largest), largest)
    weight_a, weight_b = torch.exp(a - origin)[..., None], torch.exp(b - origin)[..., None]
    total = weight_a + weight_b
    part_a = torch.where(weight_a == 0, torch.zeros_like(weight_a), weight_a * wide(o_a))
    part_b = torch.where(weight_b == 0, torch.zeros_like(weight_b), weight_b * wide(o_b))
    o = (part_a + part_b) / torch.where(total == 0, torch.ones_like(total), total)
    return o.to(wide(o_a).dtype), origin + total.squeeze(-1).log()
    # endregion
    # region solution visible_blocks
    half = num_tokens // 2
    everything, first, second = slice(None), slice(0, half), slice(half, num_tokens)
    if not causal:
        # In two pieces where that is possible: blocks may come in any order and of any size.
        return [(everything, keys, False) for keys in (second, first) if keys.start < keys.stop]
    if not zigzag:
        return [(everything, everything, source == rank)] if source <= rank else []
    if source == rank:
        return [(second, second, True), (first, first, True), (second, first, False)]
    if source < rank:
        return [(first, first, False), (second, first, False)]
    return [(second, second, False), (second, first, False)]
    # endregion
    # region solution zigzag_split
    rank, num_ranks = dist.get_rank(group), dist.get_world_size(group)
    size, remainder = divmod(x.shape[dim], 2 * num_ranks)
    if remainder:
        raise ValueError(f"a length of {x.shape[dim]} is no multiple of {2 * num_ranks}, twice the number of ranks")
    starts = torch.tensor([rank, 2 * num_ranks - 1 - rank], device=x.device) * size
    return x.index_select(dim, (starts[:, None] + torch.arange(size, device=x.device)).flatten()).contiguous()
    # endregion
    # region solution zigzag_restore
    rank, num_ranks = dist.get_rank(group), dist.get_world_size(group)
    x = x.detach()
    size = x.shape[dim] // 2
    shape = list(x.shape)
    shape[dim] = 2 * size * num_ranks
    whole = torch.empty(shape, dtype=x.dtype, device=x.device)
    for source in range(num_ranks):
        part = x.clone(memory_format=torch.contiguous_format) if source == rank else x.new_empty(x.shape)
        dist.broadcast(part, group=group, group_src=source)
        for chunk, place in zip(part.split(size, dim), (source, 2 * num_ranks - 1 - source), strict=True):
            whole.narrow(dim, place * size, size).copy_(chunk)
    return whole
    # endregion
