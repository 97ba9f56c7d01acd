"""Broadcasts the module's own buffers and none of those in the modules inside.

law: data_parallel.replicas.buffers_equal_rank_zero
says: mean
"""
    # region solution broadcast_module_state
    for tensor in [*module.parameters(), *module.buffers(recurse=False)]:
        state = tensor.detach()
        whole = state.contiguous()
        dist.broadcast(whole, group=group, group_src=0)
        if not state.is_contiguous():
            state.copy_(whole)
    # endregion
