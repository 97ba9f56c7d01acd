"""Repeats forward's arithmetic in backward, and none of its waiting.

law: parallel_plan.step.a_stage_computes_and_waits
says: backward
"""
    # region solution stage_seconds
    L = stage.num_layers
    layer, (forward_s, backward_s) = layer_seconds(model, cluster, plan), layer_waits_s(model, cluster, plan)
    compute_s, again = layer.backward_s, plan.recompute == "full"
    if again:
        compute_s += layer.forward_s

    weights_s, gradients_s = layer_shards_s(model, cluster, plan)
    gathered_s = weights_s if plan.zero_stage == 3 else 0.0
    scattered_s = gradients_s if plan.zero_stage == 3 or (plan.zero_stage == 2 and plan.num_micro_batches > 1) else 0.0
    forward_waits_s = L * forward_s + exposed_s(L, layer.forward_s, gathered_s)
    backward_waits_s = L * backward_s + exposed_s(L, compute_s, gathered_s + scattered_s)

    hidden_bytes = 2 * plan.micro_batch * model.sequence / plan.cp * model.hidden_size
    arrives_s = message_s(cluster, plan.tp * plan.cp * plan.dp, hidden_bytes / plan.tp)
    forward_waits_s += (plan.chunks - stage.has_embedding) * arrives_s
    backward_waits_s += (plan.chunks - stage.has_head) * arrives_s

    head_s = head_seconds(model, cluster, plan) if stage.has_head else 0.0
    return StageSeconds(L * layer.forward_s + head_s, forward_waits_s, L * compute_s + 2 * head_s, backward_waits_s)
    # endregion
