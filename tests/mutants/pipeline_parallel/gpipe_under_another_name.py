"""Does all forwards, then all backwards: the right bubble, and M micro-batches in memory.

law: pipeline_parallel.one_f_one_b.keeps_few_micro_batches
says: micro-batch
"""
    # region solution one_f_one_b
    schedule = []
    for rank in range(num_ranks):
        forwards = [Action(FORWARD, rank, micro_batch) for micro_batch in range(num_micro_batches)]
        backwards = [Action(BACKWARD, rank, micro_batch) for micro_batch in range(num_micro_batches)]
        num_warm_up = num_micro_batches
        schedule.append(alternating(forwards, backwards, num_warm_up))
    return schedule
    # endregion
