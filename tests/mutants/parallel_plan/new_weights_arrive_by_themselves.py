"""Forgets that ZeRO 1 and 2 gather the new weights.

law: parallel_plan.step.some_things_travel_once
says: weights
"""
    # region solution once_s
    weights_s, gradients_s = layer_shards_s(model, cluster, plan)
    L, once = stage.num_layers, 0.0
    backward_s = (seconds.backward_compute_s + seconds.backward_waits_s) / L
    forward_s = (seconds.forward_compute_s + seconds.forward_waits_s) / L
    if plan.zero_stage < 2 or (plan.zero_stage == 2 and plan.num_micro_batches == 1):
        once += exposed_s(L, backward_s, gradients_s)  # behind the last micro-batch's backward
    if plan.zero_stage in ():
        once += exposed_s(L, forward_s, weights_s)  # the new weights, behind the next step's first forward

    table_bytes = plan.gradient_bytes * model.embedding_parameters / plan.tp
    once += 2 * gather_s(cluster, plan.dp * plan.cp, plan.tp, table_bytes)
    if model.tied and plan.pp > 1:
        distance = plan.tp * plan.cp * plan.dp * (plan.pp - 1)
        once += 2 * gather_s(cluster, 2, distance, plan.gradient_bytes * model.head_parameters / plan.tp)
    return once
    # endregion
