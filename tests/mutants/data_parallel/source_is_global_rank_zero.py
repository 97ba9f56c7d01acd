"""Names the source by its global rank 0, which is not in every group.

law: data_parallel.replicas.source_is_rank_zero_of_the_group
says: group
"""
# region solution broadcast_module_state
    for tensor in [*module.parameters(), *module.buffers()]:
        message = tensor.detach().contiguous()
        dist.broadcast(message, group=group, src=0)
        tensor.detach().copy_(message)
# endregion
