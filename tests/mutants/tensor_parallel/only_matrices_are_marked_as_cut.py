"""Marks weights alone; the part of a column-parallel bias goes for a whole one.

law: tensor_parallel.linear.holds_its_part_only
says: is_cut
"""
# region solution cut
    whole = whole.detach()
    if pad:
        whole = F.pad(whole, (0, 0) * (whole.dim() - 1) + (0, -len(whole) % dist.get_world_size(group)))
    parameter = nn.Parameter(own_part(whole, dim, group).clone(memory_format=torch.contiguous_format))
    if parameter.dim() == 2:
        parameter.is_cut = True
    return parameter
# endregion
