"""Broadcasts what the state dict shows, which leaves out buffers that were registered with persistent=False.

law: data_parallel.replicas.buffers_equal_rank_zero
says: buffer
"""
# region solution broadcast_module_state
    for tensor in module.state_dict().values():
        message = tensor.detach().contiguous()
        dist.broadcast(message, group=group, group_src=0)
        tensor.detach().copy_(message)
# endregion
