"""Lets a query meet the N tokens of this rank's micro-batch instead of the T of its sequence.

law: parallel_plan.compute.a_layer_is_products_attention_and_bytes
says: attention
"""
    # region solution layer_seconds
    N, t, e, k = plan.micro_batch * model.sequence / plan.cp, plan.tp, plan.ep, model.top_k
    C, F, HD = model.hidden_size, model.mlp_size, model.num_heads * model.head_dim

    linear_s = product_s(cluster, N, C, model.qkv_size / t) + product_s(cluster, N, C / t, C)
    own, rows = model.num_experts / e, N * k * e / model.num_experts
    num_up = 2 if model.gated else 1
    linear_s += own * (num_up * product_s(cluster, rows, C, F / t) + product_s(cluster, rows, F / t, C))

    attention_s = 2 * N * N * HD / t / cluster.flops_per_s

    moved = 2 * (4 + 6) * C + (6 if model.gated else 4) * k * F
    between_s = N * moved / t / cluster.memory_bytes_per_s

    parameters = (model.shared_parameters + own * model.expert_parameters) / t
    added_s = (2 + 2 * plan.gradient_bytes) * parameters / cluster.memory_bytes_per_s if plan.num_micro_batches > 1 else 0.0

    rest_s = linear_s + between_s
    return LayerSeconds(rest_s + attention_s, 2 * rest_s + 2.5 * attention_s + added_s, attention_s, 2.5 * attention_s)
    # endregion
