"""Gives the bytes of the tensor per second as bus bandwidth.

law: collectives.measurement.bandwidth_follows_from_the_seconds
says: bandwidth
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
        ring_all_reduce(slowest, "max", group)
        seconds = statistics.median(slowest.tolist())
        points.append(BandwidthPoint(num_bytes, seconds, num_bytes / seconds))
    return points
# endregion
