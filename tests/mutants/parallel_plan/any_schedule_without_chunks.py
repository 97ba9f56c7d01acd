"""Takes every schedule but the interleaved one for 1F1B: GPipe passes.

law: parallel_plan.candidates.rules_are_told_apart
says: schedule
"""
    # region solution broken_rules
    rules: dict[Rule, bool] = {
        "world": plan.num_gpus == cluster.num_gpus,
        "batch": plan.global_batch == model.global_batch,
        "heads": model.num_kv_heads % plan.tp == 0 and model.mlp_size % plan.tp == 0,
        "layers": plan.pp <= model.num_layers,
        "sequence": (plan.cp == 1 or model.sequence % (2 * plan.cp) == 0)
        and (not plan.sequence_parallel or model.sequence // plan.cp % plan.tp == 0),
        "experts": plan.dp % plan.ep == 0 and model.num_experts % plan.ep == 0,
        "schedule": (plan.schedule != "interleaved" and plan.chunks == 1)
        or (
            plan.schedule == "interleaved"
            and plan.chunks > 1
            and plan.pp > 1
            and model.num_layers % (plan.pp * plan.chunks) == 0
            and plan.num_micro_batches % plan.pp == 0
        ),
        "sharding": plan.pp == 1 or plan.zero_stage <= 1,
    }
    return {rule for rule, holds in rules.items() if not holds}
    # endregion
