"""Gives one rank the bandwidth of its memory instead of 0.

law: collectives.cost_model.bus_bandwidth_counts_what_a_link_carries
says: one rank
"""
# region solution bus_bandwidth
    if world_size == 1:
        return num_bytes / seconds
    return 2 * (world_size - 1) / world_size * num_bytes / seconds
# endregion
