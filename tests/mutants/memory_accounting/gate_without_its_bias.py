"""Gives the gate of a swiglu no bias, as if up's were shared.

law: memory_accounting.parameters.options_change_what_exists
says: biases of the MLP
"""
# region solution parameter_count
    C, F, V, L = config.hidden_size, config.mlp_size, config.vocab_size, config.num_layers
    qkv_size = (config.num_heads + 2 * config.num_kv_heads) * config.head_dim
    bias = 1 if config.bias else 0
    attention = C * qkv_size + bias * qkv_size + C * C + bias * C
    widening = 2 if config.activation == "swiglu" else 1
    mlp = widening * C * F + bias * F + F * C + bias * C
    norm = C + (bias * C if config.norm == "layernorm" else 0)
    total = L * (attention + mlp + 2 * norm) + norm
    total += V * C
    if config.positions == "learned":
        total += config.max_tokens * C
    if not config.tied:
        total += V * C
    return total
# endregion
