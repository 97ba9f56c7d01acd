"""Goes through all p stages one by one, the first of the longest being the busiest, and adds what is not the busiest's."""
    # region solution estimate_step
    kinds = stages(model, plan)
    places = [0] if plan.pp == 1 else [0, *[1] * (plan.pp - 2), len(kinds) - 1]
    timed = {place: stage_seconds(model, cluster, plan, kinds[place]) for place in set(places)}
    passage = [timed[place].both_s for place in places]
    place = places[passage.index(max(passage))]
    own, waits_s = timed[place], 0.0
    num_sharers = plan.dp * plan.cp if plan.zero_stage > 0 else 1
    work_s = optimizer_seconds(cluster, plan, sum(rank_parameters(model, plan, kinds[place])) / num_sharers)
    work_s += plan.num_micro_batches * own.forward_compute_s + plan.num_micro_batches * own.backward_compute_s
    waits_s += plan.num_micro_batches * own.forward_waits_s + plan.num_micro_batches * own.backward_waits_s
    waits_s += once_s(model, cluster, plan, kinds[place], own)
    passage.remove(max(passage))
    return StepEstimate(
        bubble_s=sum(passage) / plan.chunks,
        compute_s=work_s,
        exposed_communication_s=waits_s,
        memory_bytes=estimate_memory(model, cluster, plan).total_bytes,
    )
    # endregion
