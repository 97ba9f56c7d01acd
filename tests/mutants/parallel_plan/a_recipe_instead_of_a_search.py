"""Follows a rule of thumb: as much tp as a node has, then as few stages as fit, then the smallest micro-batch.

law: parallel_plan.choice.within_ten_per_cent_of_the_best
says: 10 %
"""
    # region solution choose_plan
    candidates = list(candidate_plans(model, cluster))
    require_one_that_fits(model, cluster, candidates)
    fitting = [plan for plan in candidates if estimate_memory(model, cluster, plan).total_bytes <= cluster.memory_bytes]
    return min(fitting, key=lambda plan: (-plan.tp, plan.pp, plan.cp, plan.micro_batch, plan.zero_stage, plan.recompute == "full"))
    # endregion
