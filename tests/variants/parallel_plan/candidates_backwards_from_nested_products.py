"""Filters one product of all sizes, from the largest to the smallest, and takes of equally fast plans another one."""
    # region solution broken_rules
    broken: set[Rule] = set()
    t, c, p, v = plan.tp, plan.cp, plan.pp, plan.chunks
    if plan.dp * t * c * p != cluster.num_nodes * cluster.gpus_per_node:
        broken.add("world")
    if plan.micro_batch * plan.num_micro_batches * plan.dp != model.global_batch:
        broken.add("batch")
    if model.num_kv_heads % t or model.mlp_size % t:
        broken.add("heads")
    if model.num_layers < p:
        broken.add("layers")
    if (c > 1 and model.sequence % (c * 2)) or (plan.sequence_parallel and (model.sequence // c) % t):
        broken.add("sequence")
    if plan.dp % plan.ep or model.num_experts % plan.ep:
        broken.add("experts")
    is_plain = plan.schedule == "1f1b" and v == 1
    is_even = model.num_layers % (p * v) == 0 and plan.num_micro_batches % p == 0
    is_interleaved = plan.schedule == "interleaved" and v > 1 and p > 1 and is_even
    if is_plain == is_interleaved:
        broken.add("schedule")
    if p > 1 and plan.zero_stage > 1:
        broken.add("sharding")
    return broken
    # endregion
    # region solution candidate_plans
    import math

    contexts = [cp for cp in divisors(cluster.num_gpus) if cp == 1 or (model.sequence % cp == 0 and model.sequence // cp >= MIN_CONTEXT)]
    for tp in reversed(divisors(math.gcd(cluster.gpus_per_node, model.num_kv_heads, model.mlp_size))):
        for cp in reversed(contexts):
            for dp in divisors(math.gcd(cluster.num_gpus, model.global_batch)):
                pp, rest = divmod(cluster.num_gpus, tp * cp * dp)
                if rest == 0 and 0 < pp <= model.num_layers:
                    cut = Plan(dp=dp, tp=tp, pp=pp, cp=cp, sequence_parallel=tp > 1, gradient_bytes=4)
                    yield from plans_of_one_cut(model, cluster, cut)
    # endregion
    # region solution fastest
    fitting = [plan for plan in plans if estimate_memory(model, cluster, plan).total_bytes <= cluster.memory_bytes]
    timed = [(estimate_step(model, cluster, plan).step_s, -place) for place, plan in enumerate(fitting)]
    if not timed:
        return None, float("inf")
    step_s, place = min(timed)
    return fitting[-place], step_s
    # endregion
