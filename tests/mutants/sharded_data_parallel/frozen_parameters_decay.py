"""Puts frozen parameters into buckets too, where a gradient of zeros lets weight decay shrink them.

law: sharded_data_parallel.zero1.missing_gradients_count_as_zeros
says: frozen
"""
    # region solution cut_into_buckets
    buckets: list[list[nn.Parameter]] = []
    num_bytes = 0
    for parameter in reversed(list(parameters)):
        size = parameter.numel() * parameter.element_size()
        if not buckets or num_bytes + size > bucket_bytes or buckets[-1][0].dtype != parameter.dtype:
            buckets.append([])
            num_bytes = 0
        buckets[-1].append(parameter)
        num_bytes += size
    return buckets
    # endregion
