"""A gradient comes from a whole backward only, so halves are called a deadlock.

law: pipeline_parallel.simulation.stages_may_cost_differently
says: ValueError
"""
# region solution needed_by
kind, stage, micro_batch = action
if kind == FORWARD:
    return [[Action(FORWARD, stage - 1, micro_batch)]] if stage > 0 else []
if kind == BACKWARD_WEIGHT:
    return [[Action(BACKWARD_INPUT, stage, micro_batch)]]
# A backward, whole or its first half, needs the stage's own graph, and the gradient of its output from the stage behind.
own, behind = Action(FORWARD, stage, micro_batch), [Action(half, stage + 1, micro_batch) for half in (BACKWARD,)]
return [[own], behind] if stage < last_stage else [[own]]
# endregion
