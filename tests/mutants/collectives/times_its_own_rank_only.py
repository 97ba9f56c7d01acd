"""Knows nothing of the other ranks' durations.

law: collectives.measurement.times_each_call_alone
says: slowest
"""
# region solution measure_bus_bandwidth
    world_size = dist.get_world_size(group)
    points = []
    for num_bytes in sizes_bytes:
        tensor = torch.zeros(num_bytes // 4, dtype=torch.float32, device=device)
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
        seconds = statistics.median(slowest.tolist())
        points.append(BandwidthPoint(num_bytes, seconds, bus_bandwidth(num_bytes, seconds, world_size)))
    return points
# endregion
