"""A reduce-scatter only: (N - 1) / N.

law: mfu_report.communication.ring_volume
says: one pass
"""
# region solution ring_all_reduce_bytes
    return (world_size - 1) / world_size * message_bytes
# endregion
