"""Walks through the parameters once for the dtypes and again for the buckets: the second walk finds an iterator used up.

law: data_parallel.buckets.every_trainable_parameter_is_in_one_bucket
says: bucket
"""
# region solution assign_buckets
    places = {parameter: place for place, parameter in enumerate(parameters) if parameter.requires_grad}
    dtypes = {parameter.dtype for parameter in places}
    buckets: list[list[nn.Parameter]] = []
    for dtype in dtypes:
        filling: list[nn.Parameter] = []
        held = 0
        for parameter in reversed([p for p in parameters if p.requires_grad and p.dtype == dtype]):
            size = parameter.numel() * parameter.element_size()
            if filling and held + size > bucket_bytes:
                buckets.append(filling)
                filling, held = [], 0
            filling.append(parameter)
            held += size
        if filling:
            buckets.append(filling)
    return sorted(buckets, key=lambda bucket: -places[bucket[-1]])
# endregion
