"""Looks at weights, gradients and optimizer only when it asks whether a plan fits.

law: parallel_plan.choice.the_plan_fits
says: memory
"""
    # region solution fastest
    best, best_s = None, float("inf")
    for plan in plans:
        if estimate_memory(model, cluster, plan).states_bytes <= cluster.memory_bytes:
            step_s = estimate_step(model, cluster, plan).step_s
            if step_s < best_s:
                best, best_s = plan, step_s
    return best, best_s
    # endregion
