"""Adds memory up stage by stage in another order, and lets the first of equally full stages win by a loop."""
    # region solution layer_activation_bytes
    tokens = plan.micro_batch * model.sequence / plan.cp
    numbers = sum((
        2 * model.hidden_size,  # into norm and qkv
        model.head_dim * (model.num_heads + 2 * model.num_kv_heads),
        model.head_dim * (model.num_heads + model.num_kv_heads) if model.rotary else 0,
        model.hidden_size,  # into out
        2 * model.hidden_size,  # into norm and up
    ))
    for _expert in range(model.top_k):
        numbers += 4 * model.mlp_size if model.gated else 2 * model.mlp_size
    return (2 * numbers + 4 * model.num_heads) * tokens / plan.tp
    # endregion
    # region solution estimate_memory
    fullest = None
    for stage in reversed(stages(model, plan)):
        held = stage_memory(model, plan, stage)
        if fullest is None or held.total_bytes > fullest.total_bytes:
            fullest = held
    return fullest
    # endregion
