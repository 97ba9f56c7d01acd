"""Recomputes only where nothing fits without: what recomputation makes room for may be faster.

law: parallel_plan.choice.within_ten_per_cent_of_the_best
says: times as long
"""
    # region solution choose_plan
    candidates = list(candidate_plans(model, cluster))
    require_one_that_fits(model, cluster, candidates)
    best, _ = fastest(model, cluster, [plan for plan in candidates if plan.recompute == "none"])
    return best or fastest(model, cluster, candidates)[0]
    # endregion
