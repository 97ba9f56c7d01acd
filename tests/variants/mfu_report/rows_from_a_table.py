"""Builds each row from a dictionary of formulas, asked only where what they need exists."""
# region solution scaling_efficiency
    same = ("config", "precision", "compiled", "recompute", "sequence", "micro_batch", "num_micro_batches")
    if alone.world_size > 1 or any(getattr(run, name) != getattr(alone, name) for name in same):
        raise ValueError("not the same work on one rank")
    return tokens_per_s(run) / (run.world_size * tokens_per_s(alone))
# endregion
# region solution summarise
    by_name = {run.name: run for run in log.runs}

    def row(run):
        base = by_name.get(run.base)
        message = run.all_reduce_bytes or None
        figures = {"tokens_per_s": tokens_per_s(run), "peak_gib": run.peak_bytes / 1024**3, "all_reduce_s": run.all_reduce_s}
        figures["speed_up"] = base and tokens_per_s(run) / tokens_per_s(base)
        figures["efficiency"] = scaling_efficiency(run, base) if base and run.world_size > 1 else None
        for name, function in (("mfu", mfu), ("hfu", hfu)):
            try:
                figures[name] = function(run, log.hardware)
            except ValueError:
                figures[name] = None
        figures["sent_bytes"] = message and ring_all_reduce_bytes(message, run.world_size)
        rate = log.hardware.link_bytes_per_s
        figures["predicted_s"] = (
            predicted_all_reduce_seconds(message, run.world_size, link_bytes_per_s=rate, latency_s=run.link_latency_s) if message and rate else None
        )
        figures["share"] = run.all_reduce_s and run.all_reduce_s / statistics.median(run.step_s)
        return Row(name=run.name, **figures)

    return [row(run) for run in log.runs]
# endregion
