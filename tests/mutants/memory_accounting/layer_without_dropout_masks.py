"""Counts 32 for 34: both one-byte masks after the projections are missing.

law: memory_accounting.published.one_layer_alone
says: mask
"""
# region solution published_layer_bytes
    sbh = sequence * micro_batch * config.hidden_size
    if recompute == "full":
        return 2 * sbh
    outside, inside = 8 * sbh, 24 * sbh
    scores = 5 * config.num_heads * sequence * sequence * micro_batch
    if recompute == "selective":
        scores = 0
    if sequence_parallel:
        outside /= tp
    return outside + (inside + scores) / tp
# endregion
