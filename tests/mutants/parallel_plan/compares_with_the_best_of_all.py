"""Compares with the fastest plan there is instead of the one that was asked about.

law: parallel_plan.reasons.each_axis_has_its_reason
says: reason
"""
    # region solution binding_constraints
    candidates = list(candidate_plans(model, cluster))
    step_s = fastest(model, cluster, candidates)[1]
    reasons: dict[str, Reason] = {}
    for axis in ("tp", "cp", "dp", "pp", "ep"):
        if getattr(plan, axis) == 1:
            continue
        without = [candidate for candidate in candidates if getattr(candidate, axis) == 1]
        best, best_s = fastest(model, cluster, without)
        if not without:
            reasons[axis] = "shape"
        elif best is None:
            reasons[axis] = "memory"
        else:
            reasons[axis] = "time" if best_s > step_s else "none"
    return reasons
    # endregion
