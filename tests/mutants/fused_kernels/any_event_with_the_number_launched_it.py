"""Takes every host event with the kernel's correlation number for the call that launched it.

law: fused_kernels.trace.launch_gaps_are_the_hosts
says: simultaneous
"""
    # region solution trace_summary
    complete = [event for event in trace["traceEvents"] if event.get("ph") == "X"]
    on_device = [e for e in complete if e.get("cat") in ON_DEVICE and e["args"].get("device") == device]
    if not on_device:
        return TraceSummary(0.0, (), (), 0.0, "none")
    busy = busy_intervals(on_device)
    window_us = busy[-1][1] - busy[0][0]
    busy_us = sum(end - start for start, end, _ in busy)
    launched = {
        e["args"]["correlation"]: e["ts"] for e in complete if e.get("cat") not in ON_DEVICE and "correlation" in e.get("args", {})
    }
    gaps_us = []
    for (_, idle_from, _), (start, _, first) in pairwise(busy):
        if launched.get(first["args"].get("correlation"), float("-inf")) > idle_from:
            gaps_us.append(start - idle_from)
    kernels = [event for event in on_device if event["cat"] == "kernel"]
    time_us: dict[str, float] = defaultdict(float)
    count: dict[str, int] = defaultdict(int)
    for kernel in kernels:
        time_us[kernel["name"]] += kernel["dur"]
        count[kernel["name"]] += 1
    by_time = sorted(time_us, key=lambda name: (-time_us[name], name))
    bound_by_memory_us = sum(time_us[name] for name in by_time if not any(word in name.lower() for word in COMPUTE_WORDS))
    kernels_us = sum(time_us.values())
    fraction = bound_by_memory_us / kernels_us if kernels_us else 0.0
    bottleneck = "overhead" if 3 * sum(gaps_us) > window_us else "memory" if fraction >= 0.5 else "compute"
    top_kernels = tuple((name, time_us[name], count[name]) for name in by_time[:top])
    return TraceSummary(busy_us / window_us if window_us else 1.0, top_kernels, tuple(gaps_us), fraction, bottleneck)
    # endregion
