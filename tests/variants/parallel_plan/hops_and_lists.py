"""Counts hops and products in lists, and says what is exposed as the last layer's traffic and what the others' is too long."""
    # region solution product_s
    seconds = [2.0 * rows * inner * columns / cluster.flops_per_s]
    seconds.append((rows * (inner + columns) + inner * columns) * 2.0 / cluster.memory_bytes_per_s)
    return sorted(seconds)[1]
    # endregion
    # region solution layer_seconds
    N = model.sequence * plan.micro_batch / plan.cp
    C, F, experts_here = model.hidden_size, model.mlp_size / plan.tp, model.num_experts / plan.ep
    rows = N * model.top_k / experts_here
    shapes = [(N, C, model.qkv_size / plan.tp, 1.0), (N, C / plan.tp, C, 1.0), (rows, C, F, experts_here), (rows, F, C, experts_here)]
    if model.gated:
        shapes.append((rows, C, F, experts_here))
    linear_s = sum(times * product_s(cluster, *shape) for *shape, times in shapes)
    attention_s = 2 * N * model.sequence * C / (plan.tp * cluster.flops_per_s)
    numbers = 20 * C / plan.tp + (6 if model.gated else 4) * model.top_k * F
    rest_s = linear_s + N * numbers / cluster.memory_bytes_per_s
    backward_s = rest_s * 2 + attention_s * 2.5
    if plan.num_micro_batches > 1:
        here = (model.shared_parameters + model.expert_parameters * experts_here) / plan.tp
        backward_s += 2 * (1 + plan.gradient_bytes) * here / cluster.memory_bytes_per_s
    return LayerSeconds(rest_s + attention_s, backward_s, attention_backward_s=attention_s * 2.5, attention_s=attention_s)
    # endregion
    # region solution gather_s
    near = min(size, max(1, cluster.gpus_per_node // inner))
    num_nodes, part = (size + near - 1) // near, num_bytes / size
    inside_s = (near - 1) * (cluster.intra_latency_s + num_bytes / near / cluster.intra_bytes_per_s)
    if num_nodes == 1:
        return inside_s
    outside_s = (num_nodes - 1) * (cluster.inter_latency_s + num_bytes / near / num_nodes / cluster.inter_bytes_per_s)
    slowest = 1 / (near * cluster.inter_bytes_per_s)
    if near > 1:
        slowest = max(slowest, 1 / cluster.intra_bytes_per_s)
    ring_s = (size - 1) * (cluster.inter_latency_s + part * slowest)
    return ring_s if ring_s < inside_s + outside_s else inside_s + outside_s
    # endregion
    # region solution all_to_all_s
    near = min(size, max(1, cluster.gpus_per_node // inner))
    links = (
        (near - 1, cluster.intra_latency_s, cluster.intra_bytes_per_s),
        (size - near, cluster.inter_latency_s, cluster.inter_bytes_per_s),
    )
    return max(peers * (latency_s + num_bytes / size / bytes_per_s) for peers, latency_s, bytes_per_s in links)
    # endregion
    # region solution exposed_s
    return traffic_s + (num_layers - 1) * max(0.0, traffic_s - compute_s)
    # endregion
