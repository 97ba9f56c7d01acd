"""Names violations in another order, some of them twice, and compares dataclasses as dictionaries."""
# region solution settings_of
    import dataclasses

    settings = dataclasses.asdict(run.config)
    settings |= {"precision": run.precision, "compiled": run.compiled, "recompute": run.recompute, "sequence": run.sequence}
    return settings | {"batch": f"{run.micro_batch} x {run.num_micro_batches}", "ranks": f"{run.world_size} by {run.data_parallel}"}
# endregion
# region solution check_log
    found = [violation for run in reversed(log.runs) for violation in check_run(run, log)]
    return sorted(found * 2, key=lambda violation: violation.bound)
# endregion
# region solution check_devices
    found = []
    if run.precision in log.hardware.peak_flops_per_s and not hfu(run, log.hardware, causal=True) < 1:
        found.append(Violation(run.name, "mfu", "too good"))
    import torch

    from lm.gpt import GPT

    with torch.device("meta"):
        parameters = sum(p.numel() for p in GPT(run.config).parameters())
    shards = run.world_size if run.data_parallel == "torch_fsdp2" else 1
    if run.peak_bytes * shards < 16 * parameters or 0 < log.memory_bytes < run.peak_bytes:
        found.append(Violation(run.name, "memory", "too little or too much"))
    alone = run.world_size == 1
    least, most = {True: (0, 0), False: (4 * parameters if run.data_parallel.endswith("ddp") else 0, math.inf)}[alone]
    if not least <= run.all_reduce_bytes <= most:
        found.append(Violation(run.name, "volume", "too little, or with nobody"))
    took = [statistics.median(run.step_s)] + ([] if run.all_reduce_s is None else [run.all_reduce_s])
    if not alone and min(took) * log.hardware.link_bytes_per_s < run.all_reduce_bytes and log.hardware.link_bytes_per_s > 0:
        found.append(Violation(run.name, "link", "too fast"))
    return found
# endregion
