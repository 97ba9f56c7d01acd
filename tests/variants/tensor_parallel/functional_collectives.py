"""Sums, gathers and scatters by the collectives that compilers use: they return new tensors, on which one waits."""
# region solution summed
    group = dist.group.WORLD if group is None else group
    collectives = torch.ops._c10d_functional
    return collectives.wait_tensor(collectives.all_reduce(x.detach().contiguous(), "sum", group.group_name))
# endregion
# region solution gathered
    group = dist.group.WORLD if group is None else group
    collectives = torch.ops._c10d_functional
    part = x.detach().movedim(dim, 0).contiguous()
    whole = collectives.wait_tensor(collectives.all_gather_into_tensor(part, group.size(), group.group_name))
    return whole.movedim(0, dim)
# endregion
# region solution summed_part
    own_part(x, dim, group)  # refuses what can't be cut
    group = dist.group.WORLD if group is None else group
    collectives = torch.ops._c10d_functional
    whole = x.detach().movedim(dim, 0).contiguous()
    part = collectives.wait_tensor(collectives.reduce_scatter_tensor(whole, "sum", group.size(), group.group_name))
    return part.movedim(0, dim)
# endregion
