"""Broadcasts every parameter's own memory, transposed or not: gloo takes it, and NCCL refuses it.

law: data_parallel.replicas.parameters_equal_rank_zero
says: contiguous
"""
# region solution broadcast_module_state
    for tensor in [*module.parameters(), *module.buffers()]:
        dist.broadcast(tensor.detach(), group=group, group_src=0)
# endregion
