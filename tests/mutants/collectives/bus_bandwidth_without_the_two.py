"""Counts one of the two halves of the all-reduce.

law: collectives.cost_model.bus_bandwidth_counts_what_a_link_carries
says: bus
"""
# region solution bus_bandwidth
    if world_size == 1:
        return 0.0
    return (world_size - 1) / world_size * num_bytes / seconds
# endregion
