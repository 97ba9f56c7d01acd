"""Clones before it cuts, so behind each part lies a copy of the whole matrix.

law: tensor_parallel.linear.holds_its_part_only
says: memory
"""
# region solution cut
    whole = whole.detach()
    if pad:
        whole = F.pad(whole, (0, 0) * (whole.dim() - 1) + (0, -len(whole) % dist.get_world_size(group)))
    parameter = nn.Parameter(own_part(whole.clone(), dim, group))
    parameter.is_cut = True
    return parameter
# endregion
