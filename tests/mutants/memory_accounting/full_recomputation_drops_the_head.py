"""Takes the head for recomputed too and keeps the blocks' inputs only.

law: memory_accounting.activations.recomputation_keeps_inputs
says: counts the blocks alone
"""
# region solution activation_bytes
    C, F, V, L = config.hidden_size, config.mlp_size, config.vocab_size, config.num_layers
    H, G, D = config.num_heads, config.num_kv_heads, config.head_dim
    B, T = micro_batch, sequence
    tokens = B * T
    qkv_size = (H + 2 * G) * D
    dense, rotary = config.attention == "dense", config.positions == "rotary"

    if rotary:
        handed = qkv_size + H * D + G * D
    elif H > G:
        handed = qkv_size + H * D
    else:
        handed = qkv_size

    mlp = 4 * F if config.activation == "swiglu" else 2 * F
    extra_bytes = 0
    if recompute == "full":
        layer = C
    elif recompute == "selective":
        layer = 5 * C + mlp + handed
    elif dense:
        layer = 5 * C + mlp + 3 * H * D + H * T
        extra_bytes = T * T
    else:
        layer = 5 * C + mlp + handed
        extra_bytes = 4 * tokens * H
    if recompute == "full":
        return L * tokens * C * dtype_bytes
    return L * (tokens * layer * dtype_bytes + extra_bytes) + tokens * (2 * C + V) * dtype_bytes
# endregion
