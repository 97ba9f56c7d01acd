"""Takes any stage from 3 on for stage 3 and a negative one for none.

law: memory_accounting.sharding.refuses_other_stages
says: stage
"""
# region solution sharded_state_bytes
    weights, gradients = states.weights / (tp * pp), states.gradients / (tp * pp)
    masters, moments = states.master_weights / (tp * pp), states.moments / (tp * pp)
    if stage >= 1:
        masters, moments = masters / dp, moments / dp
    if stage >= 2:
        gradients /= dp
    if stage >= 3:
        weights /= dp
    return ModelStateBytes(weights, gradients, masters, moments)
# endregion
