"""Always cuts by tp 8 and recomputes, as the table of 2021 did.

law: parallel_plan.choice.within_ten_per_cent_of_the_best
says: times as long
"""
    # region solution choose_plan
    candidates = list(candidate_plans(model, cluster))
    require_one_that_fits(model, cluster, candidates)
    habit = [plan for plan in candidates if plan.tp == min(8, cluster.gpus_per_node) and plan.recompute == "full"]
    return fastest(model, cluster, habit)[0] or fastest(model, cluster, candidates)[0]
    # endregion
