"""Cuts the backwards that are left at M minus the warm-up, which is negative where M < P: the first ones get lost.

law: pipeline_parallel.one_f_one_b.is_complete
says: micro-batch
"""
    # region solution one_f_one_b
    schedule = []
    for rank in range(num_ranks):
        forwards = [Action(FORWARD, rank, micro_batch) for micro_batch in range(num_micro_batches)]
        backwards = [Action(BACKWARD, rank, micro_batch) for micro_batch in range(num_micro_batches)]
        num_warm_up = num_ranks - 1 - rank
        schedule.append(alternating(forwards, backwards, num_warm_up))
    return schedule
    # endregion
