"""Sums the first copy and the others' zeros, in which minus zero becomes zero: equal numbers, not equal bits.

law: pipeline_parallel.tied.copies_start_equal
says: bit
"""
    # region solution broadcast_tied_weight
    whole = weight.detach().clone(memory_format=torch.contiguous_format)
    if dist.get_rank(group) != 0:
        whole.zero_()
    dist.all_reduce(whole, group=group)
    weight.detach().copy_(whole)
    # endregion
