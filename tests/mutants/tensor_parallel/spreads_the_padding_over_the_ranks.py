"""Cuts unevenly first and pads each part by itself, so that rank r's rows no longer begin at r·P.

law: tensor_parallel.vocabulary.uneven_vocabularies_are_padded
says: vocab
"""
# region solution cut
    whole, world_size, rank = whole.detach(), dist.get_world_size(group), dist.get_rank(group)
    if pad:
        num_rows = -(-len(whole) // world_size)
        part = whole.tensor_split(world_size)[rank]
        part = F.pad(part, (0, 0) * (whole.dim() - 1) + (0, num_rows - len(part)))
    else:
        part = own_part(whole, dim, group)
    parameter = nn.Parameter(part.clone(memory_format=torch.contiguous_format))
    parameter.is_cut = True
    return parameter
# endregion
