"""One latency for the whole all-reduce.

law: mfu_report.communication.latency_counts_every_hop
says: one latency
"""
# region solution predicted_all_reduce_seconds
    num_hops = min(1, world_size - 1)
    return num_hops * latency_s + ring_all_reduce_bytes(message_bytes, world_size) / link_bytes_per_s
# endregion
