"""Passes equal blocks from neighbour to neighbour until they are where they belong.

law: collectives.all_to_all.each_block_travels_once
says: straight
"""
# region solution all_to_all
    size, rank = dist.get_world_size(group), dist.get_rank(group)
    rows = tensor.shape[0]
    if input_splits is None and output_splits is None:
        blocks = tensor.contiguous().view(size, rows // size, *tensor.shape[1:])
        result = torch.empty_like(blocks)
        result[rank].copy_(blocks[rank])
        passing = [blocks[(rank + distance) % size] for distance in range(1, size)]
        for step in range(1, size):
            outgoing = torch.stack(passing)
            incoming = torch.empty_like(outgoing)
            works = [dist.irecv(incoming, group=group, group_src=(rank - 1) % size), dist.isend(outgoing, group=group, group_dst=(rank + 1) % size)]
            for work in works:
                work.wait()
            result[(rank - step) % size].copy_(incoming[0])
            passing = list(incoming[1:])
        return result.view(tensor.shape)
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
            works.append(dist.isend(inputs[target], group=group, group_dst=target))
    outputs[rank].copy_(inputs[rank])
    for work in works:
        work.wait()
    return output
# endregion
