"""Looks at the stage only where there are several replicas.

law: memory_accounting.sharding.refuses_other_stages
says: nothing were wrong
"""
# region solution sharded_state_bytes
    if dp > 1 and stage not in (0, 1, 2, 3):
        raise ValueError(f"ZeRO has the stages 0, 1, 2 and 3, not {stage!r}")
    model_parallel = tp * pp
    optimizer_share = model_parallel * (dp if stage >= 1 else 1)
    gradient_share = model_parallel * (dp if stage >= 2 else 1)
    weight_share = model_parallel * (dp if stage >= 3 else 1)
    return ModelStateBytes(
        weights=states.weights / weight_share,
        gradients=states.gradients / gradient_share,
        master_weights=states.master_weights / optimizer_share,
        moments=states.moments / optimizer_share,
    )
# endregion
