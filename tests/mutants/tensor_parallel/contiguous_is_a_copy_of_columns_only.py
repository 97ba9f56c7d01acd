"""Relies on contiguous() for a copy; a slice of rows is contiguous already and stays a view of the whole.

law: tensor_parallel.linear.holds_its_part_only
says: memory
"""
# region solution cut
    whole = whole.detach()
    if pad:
        whole = F.pad(whole, (0, 0) * (whole.dim() - 1) + (0, -len(whole) % dist.get_world_size(group)))
    parameter = nn.Parameter(own_part(whole, dim, group).contiguous())
    parameter.is_cut = True
    return parameter
# endregion
