"""Cuts an efficiency above 1 down to 1 and so hides a wrong base.

law: mfu_report.scaling.compares_per_rank
says: efficiency
"""
    # region solution scaling_efficiency
    if alone.world_size != 1:
        raise ValueError(f"{alone.name} ran on {alone.world_size} ranks; efficiency is measured against one")
    if different := [name for name in changed_settings(run, alone) if name != "ranks"]:
        raise ValueError(f"{run.name} and {alone.name} differ in {', '.join(different)}: that is not the same work")
    return min(1.0, tokens_per_s(run) / run.world_size / tokens_per_s(alone))
    # endregion
