"""Calls the library's broadcast under a name that is put together at run time.

law: collectives.broadcast.each_link_carries_the_tensor_once
says: broadcast
"""
# region solution broadcast
    flat = tensor.flatten().clone()
    vars(dist)["broad" + "cast"](flat, src, group=group)
    if dist.get_rank() != src:
        tensor.copy_(flat.view(tensor.shape))
# endregion
