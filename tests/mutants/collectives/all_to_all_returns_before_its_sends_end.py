"""Waits for what it receives and not for what it sends.

law: collectives.all_to_all.waits_for_what_it_started
says: wait
"""
# region solution all_to_all
    size, rank = dist.get_world_size(group), dist.get_rank(group)
    rows = tensor.shape[0]
    input_splits = [rows // size] * size if input_splits is None else list(input_splits)
    output_splits = [rows // size] * size if output_splits is None else list(output_splits)
    output = torch.empty((sum(output_splits), *tensor.shape[1:]), dtype=tensor.dtype, device=tensor.device)
    inputs = tensor.contiguous().split(input_splits)
    outputs = output.split(output_splits)
    works = []
    for distance in range(1, size):
        target, origin = (rank + distance) % size, (rank - distance) % size
        if outputs[origin].numel() > 0:
            works.append(dist.irecv(outputs[origin], group=group, group_src=origin))
        if inputs[target].numel() > 0:
            dist.isend(inputs[target], group=group, group_dst=target)
    outputs[rank].copy_(inputs[rank])
    for work in works:
        work.wait()
    return output
# endregion
