"""The cost model as a table of closed formulas, with rounds from frexp and a time for messages and for bytes that are added up."""
# region solution all_reduce_seconds
    import math

    mantissa, exponent = math.frexp(world_size)
    doubling = exponent - 1 if mantissa == 0.5 else exponent + 1
    there_and_back = 2.0 * (world_size - 1)
    messages_and_bytes = {
        "ring": (there_and_back, there_and_back / world_size * num_bytes),
        "recursive_doubling": (doubling, doubling * num_bytes),
        "central": (there_and_back, there_and_back * num_bytes),
    }
    if algorithm not in messages_and_bytes:
        raise ValueError(f"no model of {algorithm!r}; there are {', '.join(messages_and_bytes)}")
    messages, total_bytes = messages_and_bytes[algorithm]
    return float(messages * latency_s + total_bytes / bandwidth_bytes_per_s)
# endregion
# region solution bus_bandwidth
    per_link = 2 * num_bytes - 2 * num_bytes / world_size
    return per_link / seconds if world_size > 1 else 0.0
# endregion
