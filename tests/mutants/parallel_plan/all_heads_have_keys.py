"""Sends keys of all query heads.

law: parallel_plan.communication.layers_wait_for_what_is_in_their_way
says: key
"""
    # region solution layer_waits_s
    t, c, e = plan.tp, plan.cp, plan.ep
    tokens_bytes = 2 * plan.micro_batch * model.sequence
    hidden_bytes = tokens_bytes / c * model.hidden_size
    tp_s = 4 * gather_s(cluster, t, 1, hidden_bytes)
    ep_s = 2 * all_to_all_s(cluster, e, t * c, hidden_bytes * model.top_k / t)
    cp_s = gather_s(cluster, c, t, tokens_bytes * 2 * model.num_heads * model.head_dim / t)
    layer = layer_seconds(model, cluster, plan)
    return tp_s + ep_s + max(0.0, cp_s - layer.attention_s), tp_s + ep_s + max(0.0, 2 * cp_s - layer.attention_backward_s)
    # endregion
