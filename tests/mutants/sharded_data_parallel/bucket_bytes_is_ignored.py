"""Makes one bucket of all parameters of a dtype, whatever bucket_bytes says.

law: sharded_data_parallel.zero2.gradients_are_dropped_during_backward
says: gradient
"""
    # region solution cut_into_buckets
    buckets: list[list[nn.Parameter]] = []
    num_bytes = 0
    for parameter in reversed([p for p in parameters if p.requires_grad]):
        size = parameter.numel() * parameter.element_size()
        if not buckets or buckets[-1][0].dtype != parameter.dtype:
            buckets.append([])
            num_bytes = 0
        buckets[-1].append(parameter)
        num_bytes += size
    return buckets
    # endregion
