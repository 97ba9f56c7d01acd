"""Takes the first candidate that fits.

law: parallel_plan.choice.within_ten_per_cent_of_the_best
says: times as long
"""
    # region solution fastest
    best, best_s = None, float("inf")
    for plan in plans:
        if estimate_memory(model, cluster, plan).total_bytes <= cluster.memory_bytes:
            step_s = estimate_step(model, cluster, plan).step_s
            if best is None:
                best, best_s = plan, step_s
    return best, best_s
    # endregion
