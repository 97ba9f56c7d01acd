"""Fills a bucket with whatever comes next, whatever its dtype is.

law: sharded_data_parallel.zero1.step_equals_one_process
says: type
"""
    # region solution cut_into_buckets
    buckets: list[list[nn.Parameter]] = []
    num_bytes = 0
    for parameter in reversed([p for p in parameters if p.requires_grad]):
        size = parameter.numel() * parameter.element_size()
        if not buckets or num_bytes + size > bucket_bytes:
            buckets.append([])
            num_bytes = 0
        buckets[-1].append(parameter)
        num_bytes += size
    return buckets
    # endregion
