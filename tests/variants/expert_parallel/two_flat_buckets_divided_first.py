"""Joins gradients by kind and dtype, divides them before they travel, and writes the results into the gradients that are there."""
    # region solution average_gradients
    num_ranks = dist.get_world_size(group)
    kinds: dict[Any, list[nn.Parameter]] = {}
    for parameter in parameters:
        if parameter.requires_grad:
            kinds.setdefault((getattr(parameter, "is_expert", False), parameter.dtype), []).append(parameter)
    waiting = []
    for (is_expert, _), members in kinds.items():
        pieces = [torch.zeros_like(p).flatten() if p.grad is None else p.grad.flatten() for p in members]
        flat = torch.cat(pieces) / num_ranks
        waiting.append((members, flat, dist.all_reduce(flat, group=replicas if is_expert else group, async_op=True)))
    for members, flat, work in waiting:
        work.wait()
        for parameter, piece in zip(members, flat.split([p.numel() for p in members]), strict=True):
            if parameter.grad is None:
                parameter.grad = torch.empty_like(parameter)
            parameter.grad.copy_(piece.view_as(parameter))
    # endregion
