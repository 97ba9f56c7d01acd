"""Adds the whole weights to the shard at stage 3, since each layer is gathered at some time.

law: memory_accounting.sharding.stage_3_cuts_everything
says: weights
"""
# region solution sharded_state_bytes
    if stage not in (0, 1, 2, 3):
        raise ValueError(f"unknown ZeRO stage {stage!r}: choose from 0, 1, 2, 3")
    weights, gradients = states.weights / (tp * pp), states.gradients / (tp * pp)
    masters, moments = states.master_weights / (tp * pp), states.moments / (tp * pp)
    if stage >= 1:
        masters, moments = masters / dp, moments / dp
    if stage >= 2:
        gradients /= dp
    if stage >= 3:
        weights += weights / dp
    return ModelStateBytes(weights, gradients, masters, moments)
# endregion
