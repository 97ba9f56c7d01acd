"""Makes an all-reduce of a reduce-scatter and an all-gather wherever N divides the numbers."""
# region solution summed
    flat = x.detach().clone(memory_format=torch.contiguous_format).view(-1)
    world_size = dist.get_world_size(group)
    if len(flat) % world_size:
        dist.all_reduce(flat, group=group)
    else:
        part = flat.new_empty(len(flat) // world_size)
        reduce_scatter_single(part, flat, group=group)
        all_gather_single(flat, part, group=group)
    return flat.view(x.shape)
# endregion
