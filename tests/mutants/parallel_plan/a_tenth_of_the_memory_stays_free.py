"""Leaves a tenth of the memory free, and refuses where the most frugal plan needs some of it.

law: parallel_plan.choice.the_plan_fits
says: There are plans that fit
"""
    # region solution choose_plan
    smaller = replace(cluster, memory_bytes=0.9 * cluster.memory_bytes)
    candidates = list(candidate_plans(model, smaller))
    require_one_that_fits(model, smaller, candidates)
    return fastest(model, smaller, candidates)[0]
    # endregion
