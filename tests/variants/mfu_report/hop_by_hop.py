"""Adds the ring up hop by hop, and compares median steps instead of tokens, since a rank's batch is the same in both runs."""
    # region solution ring_all_reduce_bytes
    hops = range(1, world_size)
    reduce_scatter = sum(message_bytes / world_size for _hop in hops)
    all_gather = sum(message_bytes / world_size for _hop in hops)
    return reduce_scatter + all_gather
    # endregion
    # region solution predicted_all_reduce_seconds
    elapsed_s = 0.0
    for _phase in ("reduce-scatter", "all-gather"):
        for _hop in range(world_size - 1):
            elapsed_s += latency_s + message_bytes / world_size / link_bytes_per_s
    return elapsed_s
    # endregion
    # region solution scaling_efficiency
    if alone.world_size > 1:
        raise ValueError("the base must have one rank")
    work = ("config", "precision", "compiled", "recompute", "sequence", "micro_batch", "num_micro_batches")
    for name in work:
        if getattr(run, name) != getattr(alone, name):
            raise ValueError(f"{name} is {getattr(run, name)} here and {getattr(alone, name)} in the base")
    return statistics.median(alone.step_s) / statistics.median(run.step_s)
    # endregion
