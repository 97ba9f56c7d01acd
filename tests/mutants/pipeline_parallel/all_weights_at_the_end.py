"""Each rank does the second halves when all else is done.

law: pipeline_parallel.zero_bubble.keeps_few_micro_batches
says: in flight
"""
# region solution zero_bubble
return [
    [Action(BACKWARD_INPUT if kind == BACKWARD else kind, stage, m) for kind, stage, m in actions]
    + [Action(BACKWARD_WEIGHT, rank, m) for m in range(num_micro_batches)]
    for rank, actions in enumerate(one_f_one_b(num_ranks, num_micro_batches))
]
# endregion
