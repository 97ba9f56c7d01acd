"""Orders the buckets by their first parameters, though a bucket can leave only with its last.

law: data_parallel.buckets.last_parameters_leave_first
says: order
"""
# region solution assign_buckets
    closed: list[tuple[int, list[nn.Parameter]]] = []
    filling: dict[torch.dtype, list[nn.Parameter]] = {}
    places: dict[nn.Parameter, int] = {}
    for place, parameter in enumerate(reversed([p for p in parameters if p.requires_grad])):
        places[parameter] = place
        bucket = filling.setdefault(parameter.dtype, [])
        held = sum(p.numel() * p.element_size() for p in bucket)
        if bucket and held + parameter.numel() * parameter.element_size() > bucket_bytes:
            closed.append((places[bucket[0]], bucket))
            bucket = filling[parameter.dtype] = []
        bucket.append(parameter)
    closed += [(places[bucket[0]], bucket) for bucket in filling.values()]
    return [bucket for _, bucket in sorted(closed, key=lambda pair: pair[0])]
# endregion
