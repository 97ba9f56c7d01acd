"""The last rank begins with the backward of the latest micro-batch, while the others wait for that of the first.

law: pipeline_parallel.gpipe.has_the_published_bubble
says: valid
"""
    # region solution gpipe
    schedule = []
    for rank in range(num_ranks):
        micro_batches = list(range(num_micro_batches))
        forwards = [Action(FORWARD, rank, micro_batch) for micro_batch in micro_batches]
        if rank == num_ranks - 1:
            micro_batches.reverse()
        schedule.append(forwards + [Action(BACKWARD, rank, micro_batch) for micro_batch in micro_batches])
    return schedule
    # endregion
