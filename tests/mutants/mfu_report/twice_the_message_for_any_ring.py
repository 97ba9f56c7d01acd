"""Sends the message twice, whatever the number of ranks: the limit of a long ring.

law: mfu_report.communication.ring_volume
says: ring
"""
    # region solution ring_all_reduce_bytes
    return 2 * message_bytes if world_size > 1 else 0
    # endregion
