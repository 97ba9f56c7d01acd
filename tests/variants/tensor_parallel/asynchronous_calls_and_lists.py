"""Every collective is begun, then waited for; gathering takes a list of parts and joins them itself; parts are found by narrow."""
# region solution own_part
    extent, world_size = x.shape[dim], dist.get_world_size(group)
    size, rest = divmod(extent, world_size)
    if rest:
        raise ValueError(f"{world_size} ranks can't share {extent} evenly: {rest} of them would be left over")
    return x.narrow(dim, dist.get_rank(group) * size, size)
# endregion
# region solution summed
    total = torch.empty(x.shape, dtype=x.dtype, device=x.device).copy_(x)
    work = dist.all_reduce(total, group=group, async_op=True)
    work.wait()
    return total
# endregion
# region solution gathered
    mine = x.contiguous()
    parts = [torch.empty(mine.shape, dtype=x.dtype, device=x.device) for _ in range(dist.get_world_size(group))]
    dist.all_gather(parts, mine, group=group, async_op=True).wait()
    return torch.cat(parts, dim)
# endregion
# region solution summed_part
    mine = own_part(x, dim, group)
    pieces = x.chunk(dist.get_world_size(group), dim)
    flat = torch.cat([piece.reshape(-1) for piece in pieces])
    part = torch.empty(mine.shape, dtype=x.dtype, device=x.device)
    reduce_scatter_single(part.view(-1), flat, group=group, async_op=True).wait()
    return part
# endregion
