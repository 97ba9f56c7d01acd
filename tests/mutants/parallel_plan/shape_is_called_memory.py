"""Tells a missing candidate from one that does not fit no more.

law: parallel_plan.reasons.each_axis_has_its_reason
says: shape
"""
    # region solution binding_constraints
    candidates = list(candidate_plans(model, cluster))
    step_s = estimate_step(model, cluster, plan).step_s
    reasons: dict[str, Reason] = {}
    for axis in ("tp", "cp", "dp", "pp", "ep"):
        if getattr(plan, axis) == 1:
            continue
        without = [candidate for candidate in candidates if getattr(candidate, axis) == 1]
        best, best_s = fastest(model, cluster, without)
        if best is None:
            reasons[axis] = "memory"
        else:
            reasons[axis] = "time" if best_s > step_s else "none"
    return reasons
    # endregion
