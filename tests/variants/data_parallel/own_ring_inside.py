"""Gradients go round a ring of sends and receives instead of through the library's all_reduce, one by one and all together."""
# region solution all_reduce_gradients
    for parameter in parameters:
        if parameter.requires_grad:
            if parameter.grad is None:
                parameter.grad = torch.zeros_like(parameter)
            flat_all_reduce_gradients([parameter], group)
# endregion
# region solution flat_all_reduce_gradients
    size, rank = dist.get_world_size(group), dist.get_rank(group)
    trainable = [parameter for parameter in parameters if parameter.requires_grad]
    for dtype in dict.fromkeys(parameter.dtype for parameter in trainable):
        members = [parameter for parameter in trainable if parameter.dtype == dtype]
        flat = flattened_gradients(members)
        chunks = flat.tensor_split(size)
        for step in range(2 * (size - 1)):
            leaves, arrives = chunks[(rank - step) % size], chunks[(rank - step - 1) % size]
            incoming = torch.empty_like(arrives)
            sending = dist.isend(leaves, group=group, group_dst=(rank + 1) % size)
            dist.irecv(incoming, group=group, group_src=(rank - 1) % size).wait()
            sending.wait()
            if step < size - 1:
                arrives.add_(incoming)
            else:
                arrives.copy_(incoming)
            if step == size - 2:
                arrives.div_(size)
        hand_out(flat, members)
# endregion
# region solution flattened_gradients
    gradients = [torch.zeros_like(p) if p.grad is None else p.grad for p in parameters]
    return torch.cat([gradient.detach().flatten() for gradient in gradients])
# endregion
# region solution hand_out
    start = 0
    for parameter in parameters:
        parameter.grad = flat[start : start + parameter.numel()].reshape(parameter.shape).clone()
        start += parameter.numel()
# endregion
