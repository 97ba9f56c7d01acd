"""Every rank warms up with P-1 forwards, as if each had all the others behind it.

law: pipeline_parallel.one_f_one_b.keeps_few_micro_batches
says: micro-batch
"""
    # region solution one_f_one_b
    schedule = []
    for rank in range(num_ranks):
        forwards = [Action(FORWARD, rank, micro_batch) for micro_batch in range(num_micro_batches)]
        backwards = [Action(BACKWARD, rank, micro_batch) for micro_batch in range(num_micro_batches)]
        num_warm_up = min(num_ranks - 1, num_micro_batches)
        schedule.append(alternating(forwards, backwards, num_warm_up))
    return schedule
    # endregion
