"""Counts at least one latency, for the call itself, on one rank alone too.

law: mfu_report.communication.alone_costs_nothing
says: rank
"""
    # region solution predicted_all_reduce_seconds
    num_hops = max(1, 2 * (world_size - 1))
    return num_hops * latency_s + ring_all_reduce_bytes(message_bytes, world_size) / link_bytes_per_s
    # endregion
