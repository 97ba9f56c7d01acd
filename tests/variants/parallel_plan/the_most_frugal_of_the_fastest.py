"""Prices every candidate once, and of those within a thousandth of the fastest takes the one that needs the least memory."""
    # region solution choose_plan
    candidates = list(candidate_plans(model, cluster))
    require_one_that_fits(model, cluster, candidates)
    priced = []
    for plan in candidates:
        num_bytes = estimate_memory(model, cluster, plan).total_bytes
        if num_bytes <= cluster.memory_bytes:
            priced.append((estimate_step(model, cluster, plan).step_s, num_bytes, plan))
    least_s = min(step_s for step_s, _, _ in priced)
    return min((one for one in priced if one[0] <= 1.001 * least_s), key=lambda one: one[1])[2]
    # endregion
    # region solution binding_constraints
    step_s = estimate_step(model, cluster, plan).step_s
    asked = [axis for axis in ("tp", "cp", "dp", "pp", "ep") if getattr(plan, axis) > 1]
    reasons: dict[str, Reason] = dict.fromkeys(asked, "shape")
    weight = {"shape": 0, "memory": 1, "time": 2, "none": 3}
    for candidate in candidate_plans(model, cluster):
        open_axes = [axis for axis in asked if getattr(candidate, axis) == 1 and reasons[axis] != "none"]
        if not open_axes:
            continue
        shown: Reason = "memory"
        if estimate_memory(model, cluster, candidate).total_bytes <= cluster.memory_bytes:
            shown = "time" if estimate_step(model, cluster, candidate).step_s > step_s else "none"
        for axis in open_axes:
            reasons[axis] = max(reasons[axis], shown, key=weight.__getitem__)
    return reasons
    # endregion
