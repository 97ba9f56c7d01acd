"""A part is a view of the whole matrix.

law: tensor_parallel.linear.holds_its_part_only
says: memory
"""
# region solution cut
    whole = whole.detach()
    if pad:  # F.pad counts its pairs from the last dim backwards
        whole = F.pad(whole, (0, 0) * (whole.dim() - 1) + (0, -len(whole) % dist.get_world_size(group)))
    # A clone: a view would keep the whole matrix alive, and nothing would have been saved.
    parameter = nn.Parameter(own_part(whole, dim, group))
    parameter.is_cut = True  # type: ignore[attr-defined]
    return parameter
# endregion
