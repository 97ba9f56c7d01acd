"""Cuts the moments at stage 1 and takes the masters for weights, which only stage 3 cuts.

law: memory_accounting.sharding.stage_1_cuts_the_optimizer
says: master
"""
# region solution sharded_state_bytes
    if stage not in (0, 1, 2, 3):
        raise ValueError(f"unknown ZeRO stage {stage!r}: choose from 0, 1, 2, 3")
    weights, gradients = states.weights / (tp * pp), states.gradients / (tp * pp)
    masters, moments = states.master_weights / (tp * pp), states.moments / (tp * pp)
    if stage >= 1:
        moments /= dp
    if stage >= 2:
        gradients /= dp
    if stage >= 3:
        weights, masters = weights / dp, masters / dp
    return ModelStateBytes(weights, gradients, masters, moments)
# endregion
