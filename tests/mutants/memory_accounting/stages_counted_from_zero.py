"""Takes the paper's three steps as stages 0, 1 and 2: every stage cuts one thing too many.

law: memory_accounting.sharding.matches_the_zero_table
says: stage
"""
# region solution sharded_state_bytes
    if stage not in (0, 1, 2, 3):
        raise ValueError(f"unknown ZeRO stage {stage!r}: choose from 0, 1, 2, 3")
    weights, gradients = states.weights / (tp * pp), states.gradients / (tp * pp)
    masters, moments = states.master_weights / (tp * pp), states.moments / (tp * pp)
    if stage >= 0:
        masters, moments = masters / dp, moments / dp
    if stage >= 1:
        gradients /= dp
    if stage >= 2:
        weights /= dp
    return ModelStateBytes(weights, gradients, masters, moments)
# endregion
