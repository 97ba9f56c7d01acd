"""Turns every tensor into float64, which holds each of the other dtypes, or so it seems: not the large integers.

law: data_parallel.replicas.buffers_equal_rank_zero
says: count
"""
    # region solution broadcast_module_state
    for tensor in [*module.parameters(), *module.buffers()]:
        state = tensor.detach()
        whole = state.double().contiguous()
        dist.broadcast(whole, group=group, group_src=0)
        state.copy_(whole)
    # endregion
