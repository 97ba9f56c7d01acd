"""Takes a measured time of 0 for none, by its truth, and gives no share.

law: mfu_report.report.rows_follow_from_the_log
says: share
"""
    # region solution summarise
    rows = []
    for run in log.runs:
        base = log.run(run.base) if run.base else None
        has_peak = run.precision in log.hardware.peak_flops_per_s
        sends, link_bytes_per_s = run.all_reduce_bytes > 0, log.hardware.link_bytes_per_s
        predicted_s = None
        if sends and link_bytes_per_s:
            link = {"link_bytes_per_s": link_bytes_per_s, "latency_s": run.link_latency_s}
            predicted_s = predicted_all_reduce_seconds(run.all_reduce_bytes, run.world_size, **link)
        rows.append(
            Row(
                name=run.name,
                tokens_per_s=tokens_per_s(run),
                mfu=mfu(run, log.hardware) if has_peak else None,
                hfu=hfu(run, log.hardware) if has_peak else None,
                peak_gib=run.peak_bytes / 2**30,
                speed_up=tokens_per_s(run) / tokens_per_s(base) if base else None,
                efficiency=scaling_efficiency(run, base) if base and run.world_size > 1 else None,
                sent_bytes=ring_all_reduce_bytes(run.all_reduce_bytes, run.world_size) if sends else None,
                predicted_s=predicted_s,
                all_reduce_s=run.all_reduce_s,
                share=None if not run.all_reduce_s else run.all_reduce_s / statistics.median(run.step_s),
            )
        )
    return rows
    # endregion
