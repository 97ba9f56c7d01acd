"""Lets sequence parallelism divide the norms' inputs and masks, not the inputs of the two cut matrices.

law: memory_accounting.published.sequence_parallelism_cuts_the_ten
says: sequence
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
        outside = 4 * sbh + 6 * sbh / tp
    return outside + (inside + scores) / tp
# endregion
