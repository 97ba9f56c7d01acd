"""One rank after the other sends its blocks while the others wait.

law: collectives.all_to_all.exchanges_in_parallel
says: rounds
"""
# region solution all_to_all
    size, rank = dist.get_world_size(group), dist.get_rank(group)
    equal = [tensor.shape[0] // size] * size
    inputs = tensor.contiguous().split(list(equal if input_splits is None else input_splits))
    counts = list(equal if output_splits is None else output_splits)
    outputs = [tensor.new_empty((count, *tensor.shape[1:])) for count in counts]
    outputs[rank].copy_(inputs[rank])
    for sender in range(size):
        if sender != rank:
            if outputs[sender].numel() > 0:
                dist.recv(outputs[sender], group=group, group_src=sender)
            continue
        for target in range(size):
            if target != rank and inputs[target].numel() > 0:
                dist.send(inputs[target], group=group, group_dst=target)
    return torch.cat(outputs)
# endregion
