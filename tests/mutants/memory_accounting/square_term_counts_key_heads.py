"""Counts the scores for the key/value heads only.

law: memory_accounting.published.one_layer_alone
says: heads
"""
# region solution published_layer_bytes
    sbh = sequence * micro_batch * config.hidden_size
    if recompute == "full":
        return 2 * sbh
    outside, inside = 10 * sbh, 24 * sbh
    scores = 5 * config.num_kv_heads * sequence * sequence * micro_batch
    if recompute == "selective":
        scores = 0
    if sequence_parallel:
        outside /= tp
    return outside + (inside + scores) / tp
# endregion
