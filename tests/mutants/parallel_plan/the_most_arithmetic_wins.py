"""Chooses by arithmetic alone: neither waiting nor the bubble counts.

law: parallel_plan.choice.within_ten_per_cent_of_the_best
says: 10 %
"""
    # region solution fastest
    best, best_s = None, float("inf")
    for plan in plans:
        if estimate_memory(model, cluster, plan).total_bytes <= cluster.memory_bytes:
            step_s = estimate_step(model, cluster, plan).compute_s
            if step_s < best_s:
                best, best_s = plan, step_s
    return best, best_s
    # endregion
