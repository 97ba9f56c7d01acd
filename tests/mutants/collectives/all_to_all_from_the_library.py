"""Calls the library's all_to_all_single under a name that is put together at run time.

law: collectives.all_to_all.each_block_travels_once
says: all_to_all
"""
# region solution all_to_all
    size = dist.get_world_size(group)
    source = tensor.contiguous()
    rows = sum(output_splits) if output_splits is not None else source.shape[0]
    output = torch.empty((rows, *source.shape[1:]), dtype=source.dtype, device=source.device)
    equal = [source.shape[0] // size] * size
    getattr(dist, "_".join(["all", "to", "all", "single"]))(output, source, list(output_splits or equal), list(input_splits or equal), group=group)
    return output
# endregion
