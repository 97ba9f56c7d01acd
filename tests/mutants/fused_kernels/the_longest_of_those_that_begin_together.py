"""Of several events that begin together it blames the longest, not the first in the trace.

law: fused_kernels.trace.launch_gaps_are_the_hosts
says: simultaneous
"""
    # region solution busy_intervals
    busy: list[tuple[float, float, dict[str, Any]]] = []
    for event in sorted(events, key=lambda event: (event["ts"], -event["dur"])):
        start, end = event["ts"], event["ts"] + event["dur"]
        if busy and start <= busy[-1][1]:
            busy[-1] = (busy[-1][0], max(busy[-1][1], end), busy[-1][2])
        else:
            busy.append((start, end, event))
    return busy
    # endregion
