"""Widens by the config's mlp_size, where the papers' layer has 4h.

law: memory_accounting.published.one_layer_alone
says: 4h
"""
# region solution published_layer_bytes
    sbh = sequence * micro_batch * config.hidden_size
    if recompute == "full":
        return 2 * sbh
    outside, inside = 10 * sbh, 8 * sbh + 4 * sequence * micro_batch * config.mlp_size
    scores = 5 * config.num_heads * sequence * sequence * micro_batch
    if recompute == "selective":
        scores = 0
    if sequence_parallel:
        outside /= tp
    return outside + (inside + scores) / tp
# endregion
