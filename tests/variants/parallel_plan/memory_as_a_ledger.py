"""Writes memory as a ledger of (term, bytes) lines, and lets the fullest stage be the last of a sorted list."""
    # region solution layer_activation_bytes
    width = model.hidden_size
    kept = {
        "inputs of norms, qkv, out and up": 5 * width * 2,
        "queries, keys and values": 2 * model.qkv_size,
        "rotated": 2 * (model.num_heads + model.num_kv_heads) * model.head_dim * model.rotary,
        "between the matrices of the experts": 2 * model.top_k * model.mlp_size * (2 + 2 * model.gated),
        "log-sum-exp": 4 * model.num_heads,
    }
    return sum(kept.values()) / plan.tp * (model.sequence / plan.cp) * plan.micro_batch
    # endregion
    # region solution stage_memory
    ledger: dict[str, float] = dict.fromkeys(("weights", "gradients", "optimizer", "activations", "logits"), 0.0)
    kinds = zip(rank_parameters(model, plan, stage), (plan.dp * plan.cp, plan.dp * plan.cp / plan.ep), strict=True)
    for parameters, replicas in kinds:
        for term, width, first_stage in (("optimizer", 12, 1), ("gradients", plan.gradient_bytes, 2), ("weights", 2, 3)):
            ledger[term] += width * parameters / (replicas if plan.zero_stage >= first_stage else 1)
    if plan.zero_stage == 3:
        whole = model.shared_parameters / plan.tp + model.num_experts * model.expert_parameters / (plan.ep * plan.tp)
        ledger["weights"] += 4 * whole
        ledger["gradients"] += 2 * whole
    N = plan.micro_batch * model.sequence / plan.cp
    in_flight, whole_layer = stage.num_in_flight * stage.num_layers, layer_activation_bytes(model, plan)
    ledger["activations"] = 2 * N * model.hidden_size * in_flight + whole_layer if plan.recompute == "full" else in_flight * whole_layer
    if stage.has_head:
        ledger["logits"] = 4 * N / plan.tp * (2 * model.vocab_size + model.hidden_size)
    return MemoryEstimate(**ledger)
    # endregion
    # region solution estimate_memory
    memories = [stage_memory(model, plan, stage) for stage in reversed(stages(model, plan))]
    return sorted(memories, key=lambda memory: memory.total_bytes)[-1]
    # endregion
