"""Twice the message, as for many ranks.

law: mfu_report.communication.ring_volume
says: twice the message
"""
# region solution ring_all_reduce_bytes
    return (2 * message_bytes if world_size > 1 else 0)
# endregion
