"""An all-reduce made of a reduce-scatter and an all-gather.
"""
# region solution summed
    world_size = dist.get_world_size(group)
    flat = x.reshape(-1)
    if flat.numel() % world_size:
        total = x.clone(memory_format=torch.contiguous_format)
        dist.all_reduce(total, group=group)
        return total
    return gathered(summed_part(flat, 0, group), 0, group).view(x.shape)
# endregion
