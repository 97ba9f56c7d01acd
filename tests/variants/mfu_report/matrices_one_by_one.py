"""Walks through the model layer by layer and matrix by matrix, and counts the pairs of a whole sequence before it divides by its tokens."""
    # region solution flops_per_token
    forward_again = {"none": (), "selective": ("attention",), "full": ("attention", "linear")}
    if recompute not in forward_again:
        raise ValueError(f"no recomputation is called {recompute!r}")
    width = config.num_heads * config.head_dim
    shapes = [(config.hidden_size, width + 2 * config.num_kv_heads * config.head_dim), (width, config.hidden_size)]
    shapes += [(config.hidden_size, config.mlp_size)] * (2 if config.activation == "swiglu" else 1)
    shapes += [(config.mlp_size, config.hidden_size)]
    pairs = sum(range(1, sequence + 1)) if causal else sequence**2
    total = 0
    for _layer in range(config.num_layers):
        forward = {
            "linear": sum(2 * sequence * rows * columns for rows, columns in shapes),
            "attention": sum(2 * pairs * config.head_dim for _head in range(config.num_heads) for _product in ("scores", "values")),
        }
        total += 3 * sum(forward.values()) + sum(forward[part] for part in forward_again[recompute])
    total += 3 * 2 * sequence * config.hidden_size * config.vocab_size
    return total / sequence
    # endregion
