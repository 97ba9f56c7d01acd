"""Takes a measured time of 0 for none, by its truth.

law: mfu_report.report.link_bound
says: link
"""
    # region solution check_devices
    found: list[Violation] = []

    def claim(is_possible: bool, bound: Bound, sentence: str) -> None:
        if not is_possible:
            found.append(Violation(run.name, bound, sentence))

    if run.precision in log.hardware.peak_flops_per_s:
        utilisation = hfu(run, log.hardware, causal=True)
        claim(utilisation < 1, "mfu", f"it would use {utilisation:.0%} of the {run.precision} peak of {log.hardware.name}")

    parameters = num_parameters(run.config)
    states_bytes = STATE_BYTES * parameters / (run.world_size if run.data_parallel == "torch_fsdp2" else 1)
    claim(run.peak_bytes >= states_bytes, "memory", f"a peak of {run.peak_bytes:.4g} bytes; the states alone take {states_bytes:.4g}")
    if log.memory_bytes:
        claim(run.peak_bytes <= log.memory_bytes, "memory", f"a peak of {run.peak_bytes:.4g} bytes; a device has {log.memory_bytes:.4g}")

    message_bytes, gradient_bytes = run.all_reduce_bytes, GRADIENT_BYTES * parameters
    if run.world_size == 1:
        claim(message_bytes == 0, "volume", f"one rank all-reduces {message_bytes:.4g} bytes with nobody")
        return found
    if run.data_parallel in ("ddp", "torch_ddp"):
        claim(message_bytes >= gradient_bytes, "volume", f"{message_bytes:.4g} bytes all-reduced of {gradient_bytes:.4g} in gradients")
    if message_bytes and log.hardware.link_bytes_per_s:
        floor_s = message_bytes / log.hardware.link_bytes_per_s
        shortest_s = min(statistics.median(run.step_s), run.all_reduce_s or math.inf)
        claim(shortest_s >= floor_s, "link", f"{message_bytes:.4g} bytes in {shortest_s:.3g} s; the link takes {floor_s:.3g} s")
    return found
    # endregion
