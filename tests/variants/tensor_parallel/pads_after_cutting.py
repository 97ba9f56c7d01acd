"""Never makes the padded whole: each rank makes zeros of its part's size and copies the rows in that there are."""
# region solution cut
    world_size, rank, extent = dist.get_world_size(group), dist.get_rank(group), whole.shape[dim]
    size, rest = divmod(extent, world_size)
    if rest and not pad:
        raise ValueError(f"a matrix of {extent} can't be shared evenly by {world_size} ranks")
    size += rest > 0
    shape = list(whole.shape)
    shape[dim] = size
    part = torch.zeros(shape, dtype=whole.dtype, device=whole.device)
    first, last = min(rank * size, extent), min((rank + 1) * size, extent)
    part.narrow(dim, 0, last - first).copy_(whole.detach().narrow(dim, first, last - first))
    parameter = nn.Parameter(part)
    parameter.is_cut = True
    return parameter
# endregion
