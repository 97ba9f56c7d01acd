"""Refuses only M < P; of other numbers it silently takes the largest multiple of P.

law: pipeline_parallel.interleaved.refuses_other_numbers
says: ValueError
"""
    # region solution interleaved_one_f_one_b
    if num_micro_batches < num_ranks:
        raise ValueError(f"{num_micro_batches} micro-batches are fewer than {num_ranks} ranks")
    num_micro_batches -= num_micro_batches % num_ranks

    groups, chunks = range(0, num_micro_batches, num_ranks), range(num_chunks)
    order = [(chunk, first + place) for first in groups for chunk in chunks for place in range(num_ranks)]
    schedule = []
    for rank in range(num_ranks):
        forwards = [Action(FORWARD, chunk * num_ranks + rank, micro_batch) for chunk, micro_batch in order]
        backwards = [Action(BACKWARD, (num_chunks - 1 - chunk) * num_ranks + rank, micro_batch) for chunk, micro_batch in order]
        num_warm_up = min(2 * (num_ranks - 1 - rank) + (num_chunks - 1) * num_ranks, len(forwards))
        schedule.append(alternating(forwards, backwards, num_warm_up))
    return schedule
    # endregion
