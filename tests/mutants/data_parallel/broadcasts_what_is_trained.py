"""Leaves frozen parameters as each rank has drawn them.

law: data_parallel.replicas.parameters_equal_rank_zero
says: frozen
"""
# region solution broadcast_module_state
    trained = [parameter for parameter in module.parameters() if parameter.requires_grad]
    for tensor in [*trained, *module.buffers()]:
        message = tensor.detach().contiguous()
        dist.broadcast(message, group=group, group_src=0)
        tensor.detach().copy_(message)
# endregion
