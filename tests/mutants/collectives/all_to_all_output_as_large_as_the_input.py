"""Makes the output as large as the input.

law: collectives.all_to_all.uneven_and_empty_blocks_arrive
says: rows
"""
# region solution all_to_all
    size, rank = dist.get_world_size(group), dist.get_rank(group)
    rows = tensor.shape[0]
    input_splits = [rows // size] * size if input_splits is None else list(input_splits)
    output_splits = [rows // size] * size if output_splits is None else list(output_splits)
    output = torch.empty_like(tensor, memory_format=torch.contiguous_format)
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
