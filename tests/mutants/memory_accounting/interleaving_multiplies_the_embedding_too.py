"""Multiplies the embedding's mask by the interleaving factor as well.

law: memory_accounting.published.embedding_and_head_are_counted
says: embedding
"""
# region solution published_activation_bytes
    layer = published_layer_bytes(
        config, micro_batch, sequence, tp=tp, sequence_parallel=sequence_parallel, recompute=recompute
    )
    in_flight = 1 + (pp - 1) / (pp * interleave) if interleave > 1 else 1
    layers = config.num_layers * layer * in_flight
    sbh = sequence * micro_batch * config.hidden_size
    cut = tp if sequence_parallel else 1
    embedding = sbh * pp / cut * in_flight
    head = 0.0
    if pp == 1:
        head = 4 * sbh / cut + 4 * sequence * micro_batch * config.vocab_size / tp
    return PublishedActivationBytes(layers, embedding, head)
# endregion
