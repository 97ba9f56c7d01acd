"""Says nothing of a change against a base that is badly timed, two changes included.

law: mfu_report.report.one_change_bound
says: changed
"""
    # region solution check_run
    if not is_timed(run):
        return [Violation(run.name, "timing", "its step times must be positive and finite, at least one, and its losses finite")]
    found = check_devices(run, log)
    if run.base is None:
        return found
    earlier = log.runs[: log.runs.index(run)]
    base = next((each for each in earlier if each.name == run.base), None)
    if base and not is_timed(base):
        return found
    changes = changed_settings(run, base) if base else []
    if base is None or len(changes) != 1:
        seen = f"{', '.join(changes) or 'nothing'} changed" if base else "there is no such run before it"
        return [*found, Violation(run.name, "one_change", f"against {run.base} exactly one thing changes; {seen}")]
    limit = largest_speed_up(run, base, changes[0], log.hardware) if is_timed(base) else None
    if limit is not None and (speed_up := tokens_per_s(run) / tokens_per_s(base)) > NOISE * limit:
        sentence = f"{changes[0]} made it {speed_up:.2f} times as fast as {base.name}; it can give {limit:.2f}"
        found.append(Violation(run.name, "speed_up", sentence))
    return found
    # endregion
