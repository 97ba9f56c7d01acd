"""Lets one rank be as fast as several: a limit of at least 1, as a batch has it.

law: mfu_report.report.speed_up_bound
says: can give
"""
    # region solution largest_speed_up
    if change == "ranks":
        return max(1.0, run.world_size / base.world_size)
    if change == "batch":
        return max(1.0, run.micro_batch * run.num_micro_batches / (base.micro_batch * base.num_micro_batches))
    if change == "precision":
        peaks, width = hardware.peak_flops_per_s, {"fp32": 4, "tf32": 4, "bf16": 2, "fp16": 2}
        if run.precision not in peaks or base.precision not in peaks:
            return None
        return max(peaks[run.precision] / peaks[base.precision], width[base.precision] / width[run.precision])
    return None
    # endregion
