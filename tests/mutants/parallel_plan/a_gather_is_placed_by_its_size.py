"""Takes the ranks of a group for neighbours.

law: parallel_plan.communication.gathers_take_the_cheaper_way
says: apart
"""
    # region solution gather_s
    if size == 1:
        return 0.0
    near = min(size, max(1, cluster.gpus_per_node))  # members of the group in one node
    far = -(-size // near)
    near_s = (near - 1) * cluster.intra_latency_s + (near - 1) / near * num_bytes / cluster.intra_bytes_per_s
    if far == 1:
        return near_s
    levels_s = near_s + (far - 1) * cluster.inter_latency_s + (far - 1) / far * (num_bytes / near) / cluster.inter_bytes_per_s
    leaving = near * cluster.inter_bytes_per_s
    bytes_per_s = leaving if near == 1 else min(cluster.intra_bytes_per_s, leaving)
    ring_s = (size - 1) * cluster.inter_latency_s + (size - 1) / size * num_bytes / bytes_per_s
    return min(levels_s, ring_s)
    # endregion
