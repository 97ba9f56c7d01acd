"""Lets a backward wait until both halves of the stage behind are done, though the first has made the gradient.

law: pipeline_parallel.simulation.stages_may_cost_differently
says: bubble
"""
    # region solution needed_by
    kind, stage, micro_batch = action
    if kind == FORWARD:
        return [[Action(FORWARD, stage - 1, micro_batch)]] if stage > 0 else []
    if kind == BACKWARD_WEIGHT:
        return [[Action(BACKWARD_INPUT, stage, micro_batch)]]
    own, behind = Action(FORWARD, stage, micro_batch), [Action(half, stage + 1, micro_batch) for half in (BACKWARD, BACKWARD_WEIGHT)]
    return [[own], behind] if stage < last_stage else [[own]]
    # endregion
