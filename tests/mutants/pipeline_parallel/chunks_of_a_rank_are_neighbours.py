"""Gives rank r the stages rV to rV + V-1: a pipeline of longer stages, and not a round of short ones.

law: pipeline_parallel.interleaved.is_complete
says: stage
"""
    # region solution interleaved_one_f_one_b
    if num_micro_batches % num_ranks:
        raise ValueError(f"{num_micro_batches} micro-batches are no multiple of {num_ranks} ranks")

    groups, chunks = range(0, num_micro_batches, num_ranks), range(num_chunks)
    order = [(chunk, first + place) for first in groups for chunk in chunks for place in range(num_ranks)]
    schedule = []
    for rank in range(num_ranks):
        forwards = [Action(FORWARD, rank * num_chunks + chunk, micro_batch) for chunk, micro_batch in order]
        backwards = [Action(BACKWARD, rank * num_chunks + num_chunks - 1 - chunk, micro_batch) for chunk, micro_batch in order]
        num_warm_up = min(2 * (num_ranks - 1 - rank) + (num_chunks - 1) * num_ranks, len(forwards))
        schedule.append(alternating(forwards, backwards, num_warm_up))
    return schedule
    # endregion
