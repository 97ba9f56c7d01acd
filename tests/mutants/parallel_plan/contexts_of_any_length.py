"""Cuts sequences below 1024 tokens.

law: parallel_plan.candidates.every_candidate_once
says: cp
"""
    # region solution candidate_plans
    contexts = [cp for cp in divisors(model.sequence) if cp == 1 or model.sequence >= cp]
    for tp in divisors(cluster.gpus_per_node):  # its collectives are in each layer's way: not across nodes
        for cp in contexts:
            for pp in range(1, model.num_layers + 1):
                dp, rest = divmod(cluster.num_gpus, tp * cp * pp)
                if rest == 0:
                    cut = Plan(dp=dp, tp=tp, pp=pp, cp=cp, sequence_parallel=tp > 1, gradient_bytes=4)
                    yield from plans_of_one_cut(model, cluster, cut)
    # endregion
