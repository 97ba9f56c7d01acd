"""Counts a rotated key for each query head, where they share key heads.

law: memory_accounting.activations.recomputation_keeps_inputs
says: off
"""
# region solution activation_bytes
    B, T, C, F, V = micro_batch, sequence, config.hidden_size, config.mlp_size, config.vocab_size
    H, G, D = config.num_heads, config.num_kv_heads, config.head_dim

    head = 2 * C + V
    if recompute == "full":
        block, extra_bytes = C, 0
    else:
        qkv = (H + 2 * G) * D
        handed_over = qkv
        if config.positions == "rotary":
            handed_over += 2 * H * D
        elif H > G:
            handed_over += H * D
        if config.attention == "dense" and recompute == "none":
            inside, extra_bytes = 3 * H * D + H * T, T * T
        elif recompute == "none":
            inside, extra_bytes = handed_over, 4 * B * H * T
        else:
            inside, extra_bytes = handed_over, 0
        widened = 4 * F if config.activation == "swiglu" else 2 * F
        block = 5 * C + inside + widened
    return dtype_bytes * B * T * (config.num_layers * block + head) + config.num_layers * extra_bytes
# endregion
