"""Takes the rank that is gpus_per_node further for one in the same node.

law: parallel_plan.communication.exchanges_and_messages
says: same node
"""
    # region solution message_s
    if distance <= cluster.gpus_per_node:
        return cluster.intra_latency_s + num_bytes / cluster.intra_bytes_per_s
    return cluster.inter_latency_s + num_bytes / cluster.inter_bytes_per_s
    # endregion
