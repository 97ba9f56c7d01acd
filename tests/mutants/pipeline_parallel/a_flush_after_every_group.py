"""Finishes P micro-batches, forward and backward, before the next P begin: right for M = P, a bubble for each group else.

law: pipeline_parallel.interleaved.has_the_published_bubble
says: bubble
"""
    # region solution interleaved_one_f_one_b
    if num_micro_batches % num_ranks:
        raise ValueError(f"{num_micro_batches} micro-batches are no multiple of {num_ranks} ranks")
    schedule = []
    for rank in range(num_ranks):
        actions = []
        for first in range(0, num_micro_batches, num_ranks):
            order = [(chunk, first + place) for chunk in range(num_chunks) for place in range(num_ranks)]
            forwards = [Action(FORWARD, chunk * num_ranks + rank, micro_batch) for chunk, micro_batch in order]
            backwards = [Action(BACKWARD, (num_chunks - 1 - chunk) * num_ranks + rank, micro_batch) for chunk, micro_batch in order]
            num_warm_up = min(2 * (num_ranks - 1 - rank) + (num_chunks - 1) * num_ranks, len(forwards))
            actions += alternating(forwards, backwards, num_warm_up)
        schedule.append(actions)
    return schedule
    # endregion
