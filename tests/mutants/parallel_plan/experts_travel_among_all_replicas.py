"""Reduces an expert's gradients among all dp x cp ranks, next to each other.

law: parallel_plan.communication.shards_travel_among_replicas
says: expert
"""
    # region solution layer_shards_s
    t, e, replicas = plan.tp, plan.ep, plan.dp * plan.cp
    if model.num_experts == 1:
        held = [(model.shared_parameters + model.expert_parameters, replicas, t)]
    else:
        experts = model.num_experts * model.expert_parameters / e
        held = [(model.shared_parameters, replicas, t), (experts, replicas, t)]
    weights_s = sum(gather_s(cluster, size, inner, 2 * parameters / t) for parameters, size, inner in held)
    gradients_s = sum(gather_s(cluster, size, inner, plan.gradient_bytes * parameters / t) for parameters, size, inner in held)
    return (weights_s, gradients_s) if plan.zero_stage else (0.0, 2 * gradients_s)
    # endregion
