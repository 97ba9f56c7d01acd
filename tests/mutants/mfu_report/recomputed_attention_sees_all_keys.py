"""Adds recomputed attention over all T keys, though the causal count was asked for.

law: mfu_report.flops.recomputation_is_added
says: forward
"""
    # region solution flops_per_token
    if recompute not in ("none", "selective", "full"):
        raise ValueError(f"recompute is none, selective or full, not {recompute!r}")
    C, F, H, G, D = config.hidden_size, config.mlp_size, config.num_heads, config.num_kv_heads, config.head_dim

    num_mlp_matrices = 3 if config.activation == "swiglu" else 2
    block_linear = 2 * (C * (H + 2 * G) * D + H * D * C + num_mlp_matrices * C * F)
    head = 2 * C * config.vocab_size

    keys = (sequence + 1) / 2 if causal else sequence
    attention = 2 * 2 * H * D * keys

    L = config.num_layers
    attention_again = 4 * H * D * sequence
    again = {"none": 0, "selective": L * attention_again, "full": L * (block_linear + attention_again)}[recompute]
    return 3 * (L * (block_linear + attention) + head) + again
    # endregion
