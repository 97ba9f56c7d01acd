"""Compares sequences per step, so a base that cuts the same batch into other micro-batches is accepted.

law: mfu_report.scaling.refuses_other_work
says: ValueError
"""
    # region solution scaling_efficiency
    if alone.world_size != 1:
        raise ValueError(f"{alone.name} ran on {alone.world_size} ranks; efficiency is measured against one")
    if different := [name for name in changed_settings(run, alone) if name not in ("ranks", "batch")]:
        raise ValueError(f"{run.name} and {alone.name} differ in {', '.join(different)}: that is not the same work")
    if run.micro_batch * run.num_micro_batches != alone.micro_batch * alone.num_micro_batches:
        raise ValueError(f"{run.name} and {alone.name} have different batches")
    return tokens_per_s(run) / run.world_size / tokens_per_s(alone)
    # endregion
