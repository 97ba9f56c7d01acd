"""Divides by the base and not by the ranks: two good ranks give an efficiency of 2.

law: mfu_report.scaling.compares_per_rank
says: rank
"""
    # region solution scaling_efficiency
    if alone.world_size != 1:
        raise ValueError(f"{alone.name} ran on {alone.world_size} ranks; efficiency is measured against one")
    if different := [name for name in changed_settings(run, alone) if name != "ranks"]:
        raise ValueError(f"{run.name} and {alone.name} differ in {', '.join(different)}: that is not the same work")
    return tokens_per_s(run) / tokens_per_s(alone)
    # endregion
