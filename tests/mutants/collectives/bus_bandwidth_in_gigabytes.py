"""Returns GB/s instead of bytes per second.

law: collectives.cost_model.bus_bandwidth_counts_what_a_link_carries
says: bytes
"""
# region solution bus_bandwidth
    if world_size == 1:
        return 0.0
    return 2 * (world_size - 1) / world_size * num_bytes / seconds / 1e9
# endregion
