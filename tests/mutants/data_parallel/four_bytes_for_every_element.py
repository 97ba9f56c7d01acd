"""Takes every element for 4 bytes, so that buckets of bfloat16 are closed half full and those of float64 overfull.

law: data_parallel.buckets.sizes_follow_the_cap
says: bytes
"""
# region solution assign_buckets
    closed: list[tuple[int, list[nn.Parameter]]] = []
    filling: dict[torch.dtype, list[nn.Parameter]] = {}
    places: dict[nn.Parameter, int] = {}
    for place, parameter in enumerate(reversed([p for p in parameters if p.requires_grad])):
        places[parameter] = place
        bucket = filling.setdefault(parameter.dtype, [])
        held = sum(p.numel() * 4 for p in bucket)
        if bucket and held + parameter.numel() * 4 > bucket_bytes:
            closed.append((places[bucket[-1]], bucket))
            bucket = filling[parameter.dtype] = []
        bucket.append(parameter)
    closed += [(places[bucket[-1]], bucket) for bucket in filling.values()]
    return [bucket for _, bucket in sorted(closed, key=lambda pair: pair[0])]
# endregion
