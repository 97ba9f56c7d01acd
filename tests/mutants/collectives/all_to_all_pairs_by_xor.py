"""Pairs rank with rank XOR step, which takes N - 1 rounds only if N is a power of two.

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
    for step in range(1, 1 << (size - 1).bit_length()):
        peer = rank ^ step
        if peer >= size:
            continue
        works = []
        if outputs[peer].numel() > 0:
            works.append(dist.irecv(outputs[peer], group=group, group_src=peer))
        if inputs[peer].numel() > 0:
            works.append(dist.isend(inputs[peer], group=group, group_dst=peer))
        for work in works:
            work.wait()
    return torch.cat(outputs)
# endregion
