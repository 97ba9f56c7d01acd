"""Counts N - 1 hops: those of the all-gather are forgotten.

law: mfu_report.communication.latency_counts_every_hop
says: hop
"""
    # region solution predicted_all_reduce_seconds
    num_hops = world_size - 1
    return num_hops * latency_s + ring_all_reduce_bytes(message_bytes, world_size) / link_bytes_per_s
    # endregion
