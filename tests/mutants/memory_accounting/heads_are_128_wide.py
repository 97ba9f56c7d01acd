"""Writes s/128 for as/h, which is right for GPT-3 alone.

law: memory_accounting.published.matches_printed_figures
says: heads
"""
# region solution published_layer_bytes
    sbh = sequence * micro_batch * config.hidden_size
    if recompute == "full":
        return 2 * sbh
    outside, inside = 10 * sbh, 24 * sbh
    scores = 5 * sbh * sequence / 128
    if recompute == "selective":
        scores = 0
    if sequence_parallel:
        outside /= tp
    return outside + (inside + scores) / tp
# endregion
