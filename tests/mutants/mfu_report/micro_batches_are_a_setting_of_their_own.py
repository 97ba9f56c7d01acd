"""Accumulation is two changes.

law: mfu_report.report.possible_logs_pass
says: one_change
"""
# region solution settings_of
    settings = {f"config.{field.name}": getattr(run.config, field.name) for field in fields(run.config)}
    for name in ("precision", "compiled", "recompute", "sequence"):
        settings[name] = getattr(run, name)
    settings["micro_batch"], settings["num_micro_batches"] = run.micro_batch, run.num_micro_batches
    settings["ranks"] = (run.data_parallel, run.world_size)
    return settings
# endregion
