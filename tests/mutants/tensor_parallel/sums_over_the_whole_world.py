"""Forgets the group in the all-reduce, so two groups of two get each other's addends.

law: tensor_parallel.functions.subgroups_use_their_own_ranks
says: group
"""
# region solution summed
    total = x.clone(memory_format=torch.contiguous_format)
    dist.all_reduce(total)
    return total
# endregion
