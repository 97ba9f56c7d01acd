"""Looks at the product of micro-batches only.

law: mfu_report.scaling.refuses_other_work
says: num_micro_batches
"""
# region solution scaling_efficiency
    if alone.world_size != 1:
        raise ValueError(f"{alone.name} ran on {alone.world_size} ranks; efficiency is measured against one")
    if different := [name for name in changed_settings(run, alone) if name not in ("ranks", "batch")]:
        raise ValueError(f"{run.name} and {alone.name} differ in {', '.join(different)}: that is not the same work")
    return tokens_per_s(run) / run.world_size / tokens_per_s(alone)
# endregion
