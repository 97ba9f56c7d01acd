"""Ends a stretch where the event that began last ends, though a longer one still runs.

law: fused_kernels.trace.busy_time_is_counted_once
says: longer one still runs
"""
    # region solution busy_intervals
    busy: list[tuple[float, float, dict[str, Any]]] = []
    for event in sorted(events, key=lambda event: event["ts"]):
        start, end = event["ts"], event["ts"] + event["dur"]
        if busy and start <= busy[-1][1]:  # streams run side by side: time is counted once
            busy[-1] = (busy[-1][0], end, busy[-1][2])
        else:
            busy.append((start, end, event))
    return busy
    # endregion
