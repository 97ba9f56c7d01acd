"""Indexes a tuple with the stage: too large is refused, -1 is stage 3.

law: memory_accounting.sharding.refuses_other_stages
says: -1
"""
# region solution sharded_state_bytes
    cut = ("", "om", "omg", "omgw")
    if stage >= len(cut):
        raise ValueError(f"unknown ZeRO stage {stage!r}: choose from 0, 1, 2, 3")
    ranks = tp * pp

    def share(figure, letter):
        return figure / ranks / (dp if letter in cut[stage] else 1)

    return ModelStateBytes(
        share(states.weights, "w"), share(states.gradients, "g"), share(states.master_weights, "m"), share(states.moments, "o")
    )
# endregion
