"""Bounds a precision by the peaks alone: where they hardly differ, half as many bytes still give a factor of two.

law: mfu_report.report.speed_up_bound
says: speed_up
"""
    # region solution largest_speed_up
    if change == "ranks":
        return run.world_size / base.world_size
    if change == "batch":
        return max(1.0, run.micro_batch * run.num_micro_batches / (base.micro_batch * base.num_micro_batches))
    if change == "precision":
        peaks, width = hardware.peak_flops_per_s, {"fp32": 4, "tf32": 4, "bf16": 2, "fp16": 2}
        if run.precision not in peaks or base.precision not in peaks:
            return None
        return peaks[run.precision] / peaks[base.precision]
    return None
    # endregion
