"""Sorts parameters by dtype before it fills buckets, and lets hooks ask for gradients instead of counting them."""
    # region solution cut_into_buckets
    trained = [p for p in parameters if p.requires_grad][::-1]
    by_dtype: dict[torch.dtype, list[nn.Parameter]] = {}
    for parameter in trained:
        by_dtype.setdefault(parameter.dtype, []).append(parameter)
    buckets: list[list[nn.Parameter]] = []
    for members in by_dtype.values():
        room = 0
        for parameter in members:
            if not buckets or parameter.nbytes > room or buckets[-1][0].dtype != parameter.dtype:
                buckets.append([])
                room = bucket_bytes
            buckets[-1].append(parameter)
            room -= parameter.nbytes
    # In the order in which backward completes them.
    place = {parameter: number for number, parameter in enumerate(trained)}
    return sorted(buckets, key=lambda bucket: place[bucket[-1]])
    # endregion
        # region solution sharder_gradient_is_ready
        while self.num_launched < len(self.buckets):
            if any(parameter.grad is None for parameter in self.buckets[self.num_launched].parameters):
                break
            self._launch()
        # endregion
