"""Generates every combination and asks the rules, then sorts by time with ties broken by memory; the chosen plan may be another of equals."""
    # region solution candidate_plans
    from itertools import product

    world = cluster.num_gpus
    contexts = [size for size in divisors(model.sequence) if size == 1 or model.sequence / size >= MIN_CONTEXT]
    seen = set()
    for dp, tp, cp in product(divisors(world), divisors(cluster.gpus_per_node), contexts):
        if world % (dp * tp * cp):
            continue
        pp = world // (dp * tp * cp)
        for ep, b, v, zero, recompute in product(divisors(dp), MICRO_BATCHES, CHUNKS, range(4), ("full", "none")):
            if zero == 0 and dp * cp > 1 or zero > 0 and dp * cp == 1 or model.global_batch % (dp * b):
                continue
            M = model.global_batch // (dp * b)
            schedule = "interleaved" if v > 1 else "1f1b"
            plan = Plan(
                dp=dp, tp=tp, pp=pp, cp=cp, ep=ep, micro_batch=b, num_micro_batches=M, zero_stage=zero, recompute=recompute,
                schedule=schedule, chunks=v, sequence_parallel=tp > 1, gradient_bytes=4,
            )
            if plan not in seen and not broken_rules(model, cluster, plan):
                seen.add(plan)
                yield plan
    # endregion
    # region solution choose_plan
    candidates = list(candidate_plans(model, cluster))
    require_one_that_fits(model, cluster, candidates)
    fitting = [plan for plan in candidates if estimate_memory(model, cluster, plan).total_bytes <= cluster.memory_bytes]

    def price(plan: Plan) -> tuple[float, float]:
        step = estimate_step(model, cluster, plan)
        return round(step.step_s, 4), step.memory_bytes

    return min(fitting, key=price)
    # endregion
