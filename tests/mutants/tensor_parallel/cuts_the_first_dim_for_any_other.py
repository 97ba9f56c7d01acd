"""Reduce-scatters the tensor as it lies in memory and gives the piece the shape of the part: right along dim 0 only.

law: tensor_parallel.functions.sequence_functions_are_conjugate
says: as it lies in memory
"""
# region solution summed_part
    part = torch.empty(own_part(x, dim, group).shape, dtype=x.dtype, device=x.device)
    reduce_scatter_single(part.view(-1), x.contiguous().view(-1), group=group)
    return part
# endregion
