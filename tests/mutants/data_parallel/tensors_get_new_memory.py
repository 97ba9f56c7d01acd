"""Receives into a new tensor and makes it the parameter's data.

law: data_parallel.replicas.parameters_equal_rank_zero
says: in place
"""
    # region solution broadcast_module_state
    for tensor in [*module.parameters(), *module.buffers()]:
        whole = tensor.detach().clone(memory_format=torch.contiguous_format)
        dist.broadcast(whole, group=group, group_src=0)
        tensor.data = whole
    # endregion
