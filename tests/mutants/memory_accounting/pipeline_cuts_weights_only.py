"""Divides weights and gradients by pp and leaves the optimizer's part to ZeRO.

law: memory_accounting.sharding.model_parallelism_cuts_everything
says: pp
"""
# region solution sharded_state_bytes
    if stage not in (0, 1, 2, 3):
        raise ValueError(f"unknown ZeRO stage {stage!r}: choose from 0, 1, 2, 3")
    weights, gradients = states.weights / (tp * pp), states.gradients / (tp * pp)
    masters, moments = states.master_weights / tp, states.moments / tp
    if stage >= 1:
        masters, moments = masters / dp, moments / dp
    if stage >= 2:
        gradients /= dp
    if stage >= 3:
        weights /= dp
    return ModelStateBytes(weights, gradients, masters, moments)
# endregion
