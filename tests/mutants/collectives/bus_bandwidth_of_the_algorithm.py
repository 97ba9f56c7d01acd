"""Returns bytes per second of the tensor and not of the link.

law: collectives.cost_model.bus_bandwidth_counts_what_a_link_carries
says: bus
"""
# region solution bus_bandwidth
    if world_size == 1:
        return 0.0
    return num_bytes / seconds
# endregion
