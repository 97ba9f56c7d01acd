"""Forgets the byte of the mask when the softmax is dropped: 4as/h.

law: memory_accounting.published.one_layer_alone
says: mask
"""
# region solution published_layer_bytes
    sbh = sequence * micro_batch * config.hidden_size
    if recompute == "full":
        return 2 * sbh
    outside, inside = 10 * sbh, 24 * sbh
    scores = 4 * config.num_heads * sequence * sequence * micro_batch
    if recompute == "selective":
        scores = 0
    if sequence_parallel:
        outside /= tp
    return outside + (inside + scores) / tp
# endregion
