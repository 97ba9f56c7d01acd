"""Goes backward through the chunks in the order of the forwards: the first chunk's gradient has to come from the last one's.

law: pipeline_parallel.interleaved.runs_to_its_end
says: wait
"""
    # region solution interleaved_one_f_one_b
    if num_micro_batches % num_ranks:
        raise ValueError(f"{num_micro_batches} micro-batches are no multiple of {num_ranks} ranks")

    groups, chunks = range(0, num_micro_batches, num_ranks), range(num_chunks)
    order = [(chunk, first + place) for first in groups for chunk in chunks for place in range(num_ranks)]
    schedule = []
    for rank in range(num_ranks):
        forwards = [Action(FORWARD, chunk * num_ranks + rank, micro_batch) for chunk, micro_batch in order]
        backwards = [Action(BACKWARD, chunk * num_ranks + rank, micro_batch) for chunk, micro_batch in order]
        num_warm_up = min(2 * (num_ranks - 1 - rank) + (num_chunks - 1) * num_ranks, len(forwards))
        schedule.append(alternating(forwards, backwards, num_warm_up))
    return schedule
    # endregion
