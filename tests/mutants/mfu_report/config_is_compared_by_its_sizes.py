"""Compares the numbers of a config only: another attention, activation or tie passes for the same model.

law: mfu_report.scaling.refuses_other_work
says: ValueError
"""
    # region solution scaling_efficiency
    if alone.world_size != 1:
        raise ValueError(f"{alone.name} ran on {alone.world_size} ranks; efficiency is measured against one")
    if different := [name for name in changed_settings(run, alone) if name != "ranks"
                    and not (name.startswith("config.") and isinstance(getattr(run.config, name[7:]), (str, bool)))]:
        raise ValueError(f"{run.name} and {alone.name} differ in {', '.join(different)}: that is not the same work")
    return tokens_per_s(run) / run.world_size / tokens_per_s(alone)
    # endregion
