"""Makes the part a view: right numbers, the whole matrix in memory, and the caller's layer trained along.

law: tensor_parallel.linear.holds_its_part_only
says: memory
"""
# region solution cut
    whole = whole.detach()
    if pad:
        whole = F.pad(whole, (0, 0) * (whole.dim() - 1) + (0, -len(whole) % dist.get_world_size(group)))
    parameter = nn.Parameter(own_part(whole, dim, group))
    parameter.is_cut = True
    return parameter
# endregion
