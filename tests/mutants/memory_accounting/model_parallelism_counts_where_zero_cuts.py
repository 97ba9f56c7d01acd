"""Divides by dp · tp · pp what the stage cuts and leaves the rest whole, so that stage 0 ignores tp and pp.

law: memory_accounting.sharding.model_parallelism_cuts_everything
says: stage 0
"""
# region solution sharded_state_bytes
    if stage not in (0, 1, 2, 3):
        raise ValueError(f"unknown ZeRO stage {stage!r}: choose from 0, 1, 2, 3")
    weights, gradients = states.weights, states.gradients
    masters, moments = states.master_weights, states.moments
    dp = dp * tp * pp
    if stage >= 1:
        masters, moments = masters / dp, moments / dp
    if stage >= 2:
        gradients /= dp
    if stage >= 3:
        weights /= dp
    return ModelStateBytes(weights, gradients, masters, moments)
# endregion
