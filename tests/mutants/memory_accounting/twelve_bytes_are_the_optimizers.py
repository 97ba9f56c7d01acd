"""Takes ZeRO's 2 + 2 + 12 for granted and computes masters and moments from the weights' bytes.

law: memory_accounting.sharding.stage_1_cuts_the_optimizer
says: moments
"""
# region solution sharded_state_bytes
    if stage not in (0, 1, 2, 3):
        raise ValueError(f"unknown ZeRO stage {stage!r}: choose from 0, 1, 2, 3")
    weights, gradients = states.weights / (tp * pp), states.gradients / (tp * pp)
    masters, moments = states.master_weights / (tp * pp), states.moments / (tp * pp)
    if stage >= 1:
        masters, moments = 2 * weights, 4 * weights
        masters, moments = masters / dp, moments / dp
    if stage >= 2:
        gradients /= dp
    if stage >= 3:
        weights /= dp
    return ModelStateBytes(weights, gradients, masters, moments)
# endregion
