"""Rank r puts every W off by r micro-batches, without any simulation; tied gradients are gathered and added in the order of the owners.
"""
    # region solution broadcast_tied_weight
    mine = weight.detach().clone(memory_format=torch.contiguous_format)
    copies = [torch.empty_like(mine) for _ in range(dist.get_world_size(group))]
    dist.all_gather(copies, mine, group=group)
    weight.detach().copy_(copies[0])
    # endregion
    # region solution all_reduce_tied_gradient
    if weight.grad is None:
        weight.grad = torch.zeros_like(weight)
    mine = weight.grad.detach().clone(memory_format=torch.contiguous_format)
    copies = [torch.empty_like(mine) for _ in range(dist.get_world_size(group))]
    dist.all_gather(copies, mine, group=group)
    weight.grad.copy_(torch.stack(copies).sum(0))
    # endregion
    # region solution zero_bubble
    # F and I as 1F1B's F and B; P-1-r + 1 of them before the first I, and r more whose W is still to come: P in all.
    schedule = []
    for rank in range(num_ranks):
        num_ahead = min(num_ranks - 1 - rank, num_micro_batches)
        actions = [Action(FORWARD, rank, micro_batch) for micro_batch in range(num_ahead)]
        for micro_batch in range(num_micro_batches + rank):
            if micro_batch + num_ahead < num_micro_batches:
                actions.append(Action(FORWARD, rank, micro_batch + num_ahead))
            if micro_batch < num_micro_batches:
                actions.append(Action(BACKWARD_INPUT, rank, micro_batch))
            if 0 <= micro_batch - rank:
                actions.append(Action(BACKWARD_WEIGHT, rank, micro_batch - rank))
        schedule.append(actions)
    return schedule
    # endregion
