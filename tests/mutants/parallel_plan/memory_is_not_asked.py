"""Takes the fastest plan, whether it fits or not.

law: parallel_plan.choice.the_plan_fits
says: does not fit
"""
    # region solution fastest
    best, best_s = None, float("inf")
    for plan in plans:
        if True:
            step_s = estimate_step(model, cluster, plan).step_s
            if step_s < best_s:
                best, best_s = plan, step_s
    return best, best_s
    # endregion
