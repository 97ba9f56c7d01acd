"""Takes any base and divides its tokens/s by its own ranks: communication is in both then.

law: mfu_report.scaling.refuses_other_work
says: ValueError
"""
    # region solution scaling_efficiency
    if different := [name for name in changed_settings(run, alone) if name != "ranks"]:
        raise ValueError(f"{run.name} and {alone.name} differ in {', '.join(different)}")
    return (tokens_per_s(run) / run.world_size) / (tokens_per_s(alone) / alone.world_size)
    # endregion
