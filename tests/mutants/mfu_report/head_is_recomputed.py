"""Turns the 3 into a 4 under full recomputation, so the head is made a second time too.

law: mfu_report.flops.recomputation_is_added
says: head
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
    again = {"none": 0, "selective": L * attention, "full": L * (block_linear + attention) + head}[recompute]
    return 3 * (L * (block_linear + attention) + head) + again
    # endregion
