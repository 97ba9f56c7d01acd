"""Divides the layer's input by tp under sequence parallelism, which full recomputation keeps whole.

law: memory_accounting.published.recomputation_drops_what_it_makes_again
says: whole
"""
# region solution published_layer_bytes
    sbh = sequence * micro_batch * config.hidden_size
    if recompute == "full":
        return 2 * sbh / (tp if sequence_parallel else 1)
    outside, inside = 10 * sbh, 24 * sbh
    scores = 5 * config.num_heads * sequence * sequence * micro_batch
    if recompute == "selective":
        scores = 0
    if sequence_parallel:
        outside /= tp
    return outside + (inside + scores) / tp
# endregion
