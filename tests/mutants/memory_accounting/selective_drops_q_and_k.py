"""Drops q and k with the scores that they make.

law: memory_accounting.published.recomputation_drops_what_it_makes_again
says: selective
"""
# region solution published_layer_bytes
    sbh = sequence * micro_batch * config.hidden_size
    if recompute == "full":
        return 2 * sbh
    outside, inside = 10 * sbh, 24 * sbh
    scores = 5 * config.num_heads * sequence * sequence * micro_batch
    if recompute == "selective":
        scores, inside = 0, 20 * sbh
    if sequence_parallel:
        outside /= tp
    return outside + (inside + scores) / tp
# endregion
