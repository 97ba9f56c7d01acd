"""Looks only at plans whose other inner axes are those of the plan, instead of at anything elsewhere.

law: parallel_plan.reasons.each_axis_has_its_reason
says: reason
"""
    # region solution binding_constraints
    candidates = list(candidate_plans(model, cluster))
    step_s = estimate_step(model, cluster, plan).step_s
    reasons: dict[str, Reason] = {}
    for axis in ("tp", "cp", "dp", "pp", "ep"):
        if getattr(plan, axis) == 1:
            continue
        others = [other for other in ("tp", "cp", "pp") if other != axis]
        same = [one for one in candidates if all(getattr(one, other) == getattr(plan, other) for other in others)]
        without = [candidate for candidate in same if getattr(candidate, axis) == 1]
        best, best_s = fastest(model, cluster, without)
        if not without:
            reasons[axis] = "shape"
        elif best is None:
            reasons[axis] = "memory"
        else:
            reasons[axis] = "time" if best_s > step_s else "none"
    return reasons
    # endregion
