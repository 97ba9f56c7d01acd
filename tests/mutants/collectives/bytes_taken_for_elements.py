"""Makes a tensor of as many elements as it should have bytes.

law: collectives.measurement.calls_as_often_as_it_was_asked
says: bytes
"""
# region solution measure_bus_bandwidth
    world_size = dist.get_world_size(group)
    points = []
    for num_bytes in sizes_bytes:
        tensor = torch.zeros(num_bytes, dtype=torch.float32, device=device)
        for _ in range(num_warmup):
            all_reduce(tensor, group=group)
        durations = []
        for _ in range(num_timed):
            synchronize()
            dist.barrier(group)
            begin = clock()
            all_reduce(tensor, group=group)
            synchronize()
            durations.append(clock() - begin)
        slowest = torch.tensor(durations, dtype=torch.float64, device=device)
        ring_all_reduce(slowest, "max", group)
        seconds = statistics.median(slowest.tolist())
        points.append(BandwidthPoint(num_bytes, seconds, bus_bandwidth(num_bytes, seconds, world_size)))
    return points
# endregion
