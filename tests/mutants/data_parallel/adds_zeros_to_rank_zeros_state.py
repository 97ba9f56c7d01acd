"""Everybody but the group's rank 0 gives zeros to an all_reduce: minus zero comes out as zero.

law: data_parallel.replicas.parameters_equal_rank_zero
says: other bits
"""
    # region solution broadcast_module_state
    for tensor in [*module.parameters(), *module.buffers()]:
        state = tensor.detach()
        whole = state.contiguous().clone()
        if dist.get_rank(group) != 0:
            whole.zero_()
        dist.all_reduce(whole, group=group)
        state.copy_(whole)
    # endregion
