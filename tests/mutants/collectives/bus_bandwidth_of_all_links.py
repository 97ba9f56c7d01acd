"""Adds up what all links carried.

law: collectives.cost_model.bus_bandwidth_counts_what_a_link_carries
says: bus
"""
# region solution bus_bandwidth
    if world_size == 1:
        return 0.0
    return 2 * (world_size - 1) * num_bytes / seconds
# endregion
