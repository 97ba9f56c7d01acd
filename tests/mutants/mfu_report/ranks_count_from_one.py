"""Bounds ranks by the world size of the run and not by the ratio: from two to four may give a factor of four.

law: mfu_report.report.speed_up_bound
says: ranks
"""
    # region solution largest_speed_up
    if change == "ranks":
        return float(run.world_size)
    if change == "batch":
        return max(1.0, run.micro_batch * run.num_micro_batches / (base.micro_batch * base.num_micro_batches))
    if change == "precision":
        peaks, width = hardware.peak_flops_per_s, {"fp32": 4, "tf32": 4, "bf16": 2, "fp16": 2}
        if run.precision not in peaks or base.precision not in peaks:
            return None
        return max(peaks[run.precision] / peaks[base.precision], width[base.precision] / width[run.precision])
    return None
    # endregion
