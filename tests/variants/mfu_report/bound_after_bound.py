"""Asks one bound of all runs before the next, from the last run to the first, and tells a pair again for each reason that it finds."""
    # region solution check_log
    import itertools

    places = {run.name: place for place, run in reversed(list(enumerate(log.runs)))}
    timed = [run for run in log.runs if is_timed(run)]
    table, link_bytes_per_s = log.hardware.peak_flops_per_s, log.hardware.link_bytes_per_s
    found: list[tuple[Run, Bound]] = []
    for run in reversed(log.runs):
        found += [(run, "timing") for step_s in run.step_s if not 0 < step_s < math.inf]
        found += [(run, "timing") for loss in run.losses if not -math.inf < loss < math.inf]
        found += [] if run.step_s else [(run, "timing")]
    found += [(run, "mfu") for run in reversed(timed) if run.precision in table and not hfu(run, log.hardware, causal=True) < 1]
    for run in reversed(timed):
        sharers = run.world_size if run.data_parallel == "torch_fsdp2" else 1
        found += [(run, "memory")] if run.peak_bytes * sharers < 16 * num_parameters(run.config) else []
        found += [(run, "memory")] if 0 < log.memory_bytes < run.peak_bytes else []
    for run in reversed(timed):
        least = 4 * num_parameters(run.config) if run.data_parallel in ("ddp", "torch_ddp") else 0
        wrong = run.all_reduce_bytes < least if run.world_size > 1 else run.all_reduce_bytes != 0
        found += [(run, "volume")] if wrong else []
    for run in reversed(timed):
        if run.world_size > 1 and run.all_reduce_bytes and link_bytes_per_s:
            durations_s = [statistics.median(run.step_s)] + ([] if run.all_reduce_s is None else [run.all_reduce_s])
            found += [(run, "link") for duration_s in durations_s if duration_s < run.all_reduce_bytes / link_bytes_per_s]
    for run in reversed([run for run in timed if run.base is not None]):
        if places.get(run.base, len(log.runs)) >= log.runs.index(run):
            found.append((run, "one_change"))
            continue
        base = log.runs[places[run.base]]
        changes = changed_settings(run, base)
        found += [(run, "one_change") for _pair in itertools.combinations(changes, 2)] + ([] if changes else [(run, "one_change")])
        if len(changes) == 1 and is_timed(base):
            limit = largest_speed_up(run, base, changes[0], log.hardware)
            found += [(run, "speed_up")] if limit is not None and tokens_per_s(run) / tokens_per_s(base) > 1.1 * limit else []
    return [Violation(run.name, bound, f"{run.name} breaks {bound}") for run, bound in found]
    # endregion
