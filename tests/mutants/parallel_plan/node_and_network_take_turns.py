"""Adds what stays in the node to what leaves it.

law: parallel_plan.communication.exchanges_and_messages
says: side by side
"""
    # region solution all_to_all_s
    if size == 1:
        return 0.0
    near = min(size, max(1, cluster.gpus_per_node // inner))
    near_s = (near - 1) * cluster.intra_latency_s + (near - 1) / size * num_bytes / cluster.intra_bytes_per_s
    others = size - near
    far_s = others * cluster.inter_latency_s + others / size * num_bytes / cluster.inter_bytes_per_s
    return near_s + far_s
    # endregion
