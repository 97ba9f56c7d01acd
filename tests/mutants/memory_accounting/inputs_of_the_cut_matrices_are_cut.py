"""Takes the inputs of q, k, v and of the first MLP matrix for a rank's own: 6 + 28/t.

law: memory_accounting.published.tensor_parallelism_cuts_all_but_ten
says: 10
"""
# region solution published_layer_bytes
    sbh = sequence * micro_batch * config.hidden_size
    if recompute == "full":
        return 2 * sbh
    outside, inside = 6 * sbh, 28 * sbh
    scores = 5 * config.num_heads * sequence * sequence * micro_batch
    if recompute == "selective":
        scores = 0
    if sequence_parallel:
        outside /= tp
    return outside + (inside + scores) / tp
# endregion
