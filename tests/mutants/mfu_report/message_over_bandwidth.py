"""Divides the message by the bandwidth, not the ring's volume: right for two ranks only.

law: mfu_report.communication.time_is_volume_over_bandwidth
says: bandwidth
"""
    # region solution predicted_all_reduce_seconds
    num_hops = 2 * (world_size - 1)
    return num_hops * latency_s + (message_bytes if world_size > 1 else 0) / link_bytes_per_s
    # endregion
