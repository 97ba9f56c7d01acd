"""Sends a message over exactly one node's GPUs by the node's own link.

law: parallel_plan.communication.exchanges_and_messages
says: message
"""
    # region solution message_s
    if distance <= cluster.gpus_per_node:
        return cluster.intra_latency_s + num_bytes / cluster.intra_bytes_per_s
    return cluster.inter_latency_s + num_bytes / cluster.inter_bytes_per_s
    # endregion
