"""Compares with an eager run as well: what compilation gives counts as scaling, and so do a precision and a sequence.

law: mfu_report.scaling.refuses_other_work
says: precision
"""
    # region solution scaling_efficiency
    if alone.world_size != 1:
        raise ValueError(f"{alone.name} ran on {alone.world_size} ranks; efficiency is measured against one")
    if different := [name for name in changed_settings(run, alone) if name not in ("ranks", "compiled", "precision", "sequence")]:
        raise ValueError(f"{run.name} and {alone.name} differ in {', '.join(different)}: that is not the same work")
    return tokens_per_s(run) / run.world_size / tokens_per_s(alone)
    # endregion
