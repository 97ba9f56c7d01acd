"""Asks only for the gradient from the stage behind: on the last stage a backward before its own forward is no deadlock.

law: pipeline_parallel.simulation.deadlocks_are_refused
says: ValueError
"""
    # region solution needed_by
    kind, stage, micro_batch = action
    if kind == FORWARD:
        return [[Action(FORWARD, stage - 1, micro_batch)]] if stage > 0 else []
    if kind == BACKWARD_WEIGHT:
        return [[Action(BACKWARD_INPUT, stage, micro_batch)]]
    behind = [Action(half, stage + 1, micro_batch) for half in (BACKWARD, BACKWARD_INPUT)]
    return [behind] if stage < last_stage else []
    # endregion
