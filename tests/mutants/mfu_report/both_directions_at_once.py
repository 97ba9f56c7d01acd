"""Lets the volume travel in both directions of the link at once.

law: mfu_report.communication.time_is_volume_over_bandwidth
says: direction
"""
    # region solution predicted_all_reduce_seconds
    num_hops = 2 * (world_size - 1)
    return num_hops * latency_s + ring_all_reduce_bytes(message_bytes, world_size) / (2 * link_bytes_per_s)
    # endregion
