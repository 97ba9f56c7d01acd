"""Counts product by product from a list of shapes, ranks and tokens by integers, and writes the checks as a table of conditions."""
# region solution flops_per_token
    shapes = [(config.hidden_size, config.head_dim * (config.num_heads + config.num_kv_heads * 2)), (config.hidden_size, config.hidden_size)]
    shapes += [(config.hidden_size, config.mlp_size)] * {"gelu": 2, "swiglu": 3}[config.activation]
    linear = sum(rows * columns for rows, columns in shapes) * config.num_layers
    if causal:
        pairs = sequence * (sequence + 1) // 2
    else:
        pairs = sequence * sequence
    squares = 2 * config.hidden_size * config.num_layers * pairs / sequence
    products = 3 * (linear + squares + config.hidden_size * config.vocab_size)
    match recompute:
        case "none":
            extra = 0
        case "selective":
            extra = squares
        case "full":
            extra = squares + linear
        case _:
            raise ValueError(recompute)
    return 2 * (products + extra)
# endregion
# region solution tokens_per_s
    ordered = sorted(run.step_s)
    middle = (ordered[(len(ordered) - 1) // 2] + ordered[len(ordered) // 2]) / 2
    return run.sequence * run.world_size * run.micro_batch * run.num_micro_batches / middle
# endregion
# region solution mfu
    per_rank = tokens_per_s(run) / run.world_size
    return per_rank / (peak_flops_per_s(run, hardware) / flops_per_token(run.config, run.sequence, causal=causal, recompute="none"))
# endregion
# region solution peak_flops_per_s
    try:
        return hardware.peak_flops_per_s[run.precision]
    except KeyError as missing:
        raise ValueError(f"no peak for {missing}") from None
# endregion
# region solution ring_all_reduce_bytes
    return 2 * (message_bytes - message_bytes / world_size)
# endregion
# region solution predicted_all_reduce_seconds
    piece_s = message_bytes / world_size / link_bytes_per_s
    return sum(latency_s + piece_s for _ in range(2 * (world_size - 1)))
# endregion
