"""Leaves the square term whole on every tensor-parallel rank.

law: memory_accounting.published.tensor_parallelism_cuts_all_but_ten
says: scores
"""
# region solution published_layer_bytes
    sbh = sequence * micro_batch * config.hidden_size
    if recompute == "full":
        return 2 * sbh
    outside, inside = 10 * sbh, 24 * sbh
    scores = 5 * config.num_heads * sequence * sequence * micro_batch
    if recompute == "selective":
        scores = 0
    if sequence_parallel:
        outside /= tp
    return outside + inside / tp + scores
# endregion
