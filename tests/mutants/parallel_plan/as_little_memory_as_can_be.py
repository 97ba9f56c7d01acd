"""Takes the plan that holds the least.

law: parallel_plan.choice.within_ten_per_cent_of_the_best
says: times as long
"""
    # region solution choose_plan
    candidates = list(candidate_plans(model, cluster))
    require_one_that_fits(model, cluster, candidates)
    return min(candidates, key=lambda plan: estimate_memory(model, cluster, plan).total_bytes)
    # endregion
