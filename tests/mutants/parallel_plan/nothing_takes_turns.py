"""Leaves out the bubble and the waiting, and misses the simulator by far.

law: parallel_plan.step.agrees_with_the_simulator
says: simulator
"""
    # region solution estimate_step
    kinds = stages(model, plan)
    timed = [stage_seconds(model, cluster, plan, stage) for stage in kinds]
    busiest = max(range(len(kinds)), key=lambda place: timed[place].both_s)
    seconds, M = timed[busiest], plan.num_micro_batches

    shared, experts = rank_parameters(model, plan, kinds[busiest])
    updated = (shared + experts) / (plan.dp * plan.cp if plan.zero_stage else 1)
    compute_s = M * (seconds.forward_compute_s + seconds.backward_compute_s) + optimizer_seconds(cluster, plan, updated)
    waits_s = M * (seconds.forward_waits_s + seconds.backward_waits_s) + once_s(model, cluster, plan, kinds[busiest], seconds)

    num_middle = max(0, plan.pp - 2)
    all_s = sum(one.both_s * (num_middle if len(kinds) == 3 and place == 1 else 1) for place, one in enumerate(timed))
    bubble_s = (all_s - seconds.both_s) / plan.chunks
    return StepEstimate(compute_s / plan.num_micro_batches, 0 * waits_s, 0 * bubble_s, estimate_memory(model, cluster, plan).total_bytes)
    # endregion
