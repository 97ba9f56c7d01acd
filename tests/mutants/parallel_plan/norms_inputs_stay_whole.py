"""Divides by tp only what tensor parallelism cuts without sequence parallelism: four inputs of C stay whole.

law: parallel_plan.memory.a_layer_keeps_its_activations
says: activation
"""
    # region solution layer_activation_bytes
    C, F, H, k = model.hidden_size, model.mlp_size, model.num_heads, model.top_k
    attention = C + model.qkv_size + ((H + model.num_kv_heads) * model.head_dim if model.rotary else 0)
    mlp = k * (4 if model.gated else 2) * F
    per_token = 2 * (attention + mlp) + 4 * H
    return plan.micro_batch * model.sequence / plan.cp * (8 * C + per_token / plan.tp)
    # endregion
