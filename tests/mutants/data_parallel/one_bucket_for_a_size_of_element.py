"""Keeps apart what has elements of different size, and so puts float16 and bfloat16 into one bucket.

law: data_parallel.buckets.dtypes_do_not_mix
says: dtype
"""
# region solution assign_buckets
    closed: list[tuple[int, list[nn.Parameter]]] = []
    filling: dict[int, list[nn.Parameter]] = {}
    places: dict[nn.Parameter, int] = {}
    for place, parameter in enumerate(reversed([p for p in parameters if p.requires_grad])):
        places[parameter] = place
        bucket = filling.setdefault(parameter.element_size(), [])
        held = sum(p.numel() * p.element_size() for p in bucket)
        if bucket and held + parameter.numel() * parameter.element_size() > bucket_bytes:
            closed.append((places[bucket[-1]], bucket))
            bucket = filling[parameter.element_size()] = []
        bucket.append(parameter)
    closed += [(places[bucket[-1]], bucket) for bucket in filling.values()]
    return [bucket for _, bucket in sorted(closed, key=lambda pair: pair[0])]
# endregion
