"""Asks for more than 1024 tokens on each rank of cp where 1024 are enough.

law: parallel_plan.candidates.every_candidate_once
says: candidate
"""
    # region solution candidate_plans
    for tp in divisors(cluster.gpus_per_node):
        for cp in (1, *(cp for cp in divisors(model.sequence) if cp > 1 and model.sequence > MIN_CONTEXT * cp)):
            for pp in range(1, model.num_layers + 1):
                dp, rest = divmod(cluster.num_gpus, tp * cp * pp)
                if rest == 0:
                    cut = Plan(dp=dp, tp=tp, pp=pp, cp=cp, sequence_parallel=tp > 1, gradient_bytes=4)
                    yield from plans_of_one_cut(model, cluster, cut)
    # endregion
