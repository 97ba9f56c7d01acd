"""Warms up with P-2-r forwards: all is valid, and each rank waits for its neighbour in every pair.

law: pipeline_parallel.one_f_one_b.has_the_published_bubble
says: bubble
"""
    # region solution one_f_one_b
    schedule = []
    for rank in range(num_ranks):
        forwards = [Action(FORWARD, rank, micro_batch) for micro_batch in range(num_micro_batches)]
        backwards = [Action(BACKWARD, rank, micro_batch) for micro_batch in range(num_micro_batches)]
        num_warm_up = min(max(num_ranks - 2 - rank, 0), num_micro_batches)
        schedule.append(alternating(forwards, backwards, num_warm_up))
    return schedule
    # endregion
