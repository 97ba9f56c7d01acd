"""Compares configs as a whole, so two fields that changed at once pass for one change.

law: mfu_report.report.one_change_bound
says: changed
"""
    # region solution settings_of
    settings = {"config": run.config}
    for name in ("precision", "compiled", "recompute", "sequence"):
        settings[name] = getattr(run, name)
    settings["batch"] = (run.micro_batch, run.num_micro_batches)
    settings["ranks"] = (run.data_parallel, run.world_size)
    return settings
    # endregion
