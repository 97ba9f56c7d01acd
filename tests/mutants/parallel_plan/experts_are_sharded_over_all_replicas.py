"""Shards experts over as many ranks as everything else.

law: parallel_plan.memory.states_are_sharded_over_all_replicas
says: experts were sharded
"""
    # region solution stage_memory
    shared, experts = rank_parameters(model, plan, stage)
    replicas = plan.dp * plan.cp

    def held(bytes_per_parameter: int, is_sharded: bool) -> float:
        if is_sharded:
            return bytes_per_parameter * (shared / replicas + experts / replicas)
        return bytes_per_parameter * (shared + experts)

    weights = held(WEIGHT_BYTES, plan.zero_stage >= 3)
    gradients = held(plan.gradient_bytes, plan.zero_stage >= 2)
    if plan.zero_stage == 3:
        layer = (model.shared_parameters + model.num_experts * model.expert_parameters / plan.ep) / plan.tp
        weights += 2 * WEIGHT_BYTES * layer
        gradients += 2 * layer

    tokens = plan.micro_batch * model.sequence / plan.cp
    kept = layer_activation_bytes(model, plan)
    if plan.recompute == "full":
        activations = stage.num_in_flight * stage.num_layers * 2 * tokens * model.hidden_size + kept
    else:
        activations = stage.num_in_flight * stage.num_layers * kept
    logits = tokens * (8 * model.vocab_size + 4 * model.hidden_size) / plan.tp if stage.has_head else 0.0
    return MemoryEstimate(weights, gradients, held(OPTIMIZER_BYTES, plan.zero_stage >= 1), activations, logits)
    # endregion
