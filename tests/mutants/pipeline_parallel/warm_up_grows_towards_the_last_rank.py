"""Counts the stages before a rank instead of those behind it: the first rank waits for a gradient before it sends what is needed for it.

law: pipeline_parallel.one_f_one_b.runs_to_its_end
says: wait
"""
    # region solution one_f_one_b
    schedule = []
    for rank in range(num_ranks):
        forwards = [Action(FORWARD, rank, micro_batch) for micro_batch in range(num_micro_batches)]
        backwards = [Action(BACKWARD, rank, micro_batch) for micro_batch in range(num_micro_batches)]
        num_warm_up = min(rank, num_micro_batches)
        schedule.append(alternating(forwards, backwards, num_warm_up))
    return schedule
    # endregion
