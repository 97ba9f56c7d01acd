"""Fills the buckets from the first parameter on.

law: sharded_data_parallel.zero2.buckets_leave_while_backward_runs
says: last parameter
"""
# region solution cut_into_buckets
    buckets: list[list[nn.Parameter]] = []
    num_bytes = 0
    for parameter in [p for p in parameters if p.requires_grad]:
        size = parameter.numel() * parameter.element_size()
        if not buckets or num_bytes + size > bucket_bytes or buckets[-1][0].dtype != parameter.dtype:
            buckets.append([])
            num_bytes = 0
        buckets[-1].append(parameter)
        num_bytes += size
    return buckets
# endregion
