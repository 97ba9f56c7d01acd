"""One rank sends the message to itself.

law: mfu_report.communication.alone_costs_nothing
says: largest
"""
# region solution ring_all_reduce_bytes
    return max(1, 2 * (world_size - 1) / world_size) * message_bytes
# endregion
