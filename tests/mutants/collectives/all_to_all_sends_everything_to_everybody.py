"""Sends its whole tensor to every rank where the blocks are equal, and each keeps its own block.

law: collectives.all_to_all.each_block_travels_once
says: elements
"""
# region solution all_to_all
    size, rank = dist.get_world_size(group), dist.get_rank(group)
    rows = tensor.shape[0]
    if input_splits is None and output_splits is None:
        whole = tensor.contiguous()
        everybody = [whole if r == rank else torch.empty_like(whole) for r in range(size)]
        works = [dist.irecv(everybody[r], group=group, group_src=r) for r in range(size) if r != rank]
        works += [dist.isend(whole, group=group, group_dst=r) for r in range(size) if r != rank]
        for work in works:
            work.wait()
        return torch.cat([part.split(rows // size)[rank] if rows else part for part in everybody])
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
