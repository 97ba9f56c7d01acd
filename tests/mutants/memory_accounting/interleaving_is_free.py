"""Ignores the model chunks of an interleaved schedule.

law: memory_accounting.published.first_stage_holds_all_layers
says: interleave
"""
# region solution published_activation_bytes
    layer = published_layer_bytes(
        config, micro_batch, sequence, tp=tp, sequence_parallel=sequence_parallel, recompute=recompute
    )
    in_flight = 1
    layers = config.num_layers * layer * in_flight
    sbh = sequence * micro_batch * config.hidden_size
    cut = tp if sequence_parallel else 1
    embedding = sbh * pp / cut
    head = 0.0
    if pp == 1:
        head = 4 * sbh / cut + 4 * sequence * micro_batch * config.vocab_size / tp
    return PublishedActivationBytes(layers, embedding, head)
# endregion
