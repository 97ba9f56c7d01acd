"""Counts the two extra rounds for powers of two as well.

law: collectives.cost_model.agrees_with_the_trace
says: rounds
"""
# region solution all_reduce_seconds
    log2 = world_size.bit_length() - 1
    if algorithm == "ring":
        rounds, message = 2 * (world_size - 1), num_bytes / world_size
    elif algorithm == "recursive_doubling":
        rounds, message = log2 + 2 if world_size > 1 else 0, num_bytes
    elif algorithm == "central":
        rounds, message = 2 * (world_size - 1), num_bytes
    else:
        raise ValueError(f"algorithm must be 'ring', 'recursive_doubling' or 'central', not {algorithm!r}")
    return rounds * (latency_s + message / bandwidth_bytes_per_s)
# endregion
