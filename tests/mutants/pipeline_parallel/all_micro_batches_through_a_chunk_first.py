"""Sends all M micro-batches through a chunk before the next, and not P: the same for M = P, and (V-1)M in memory else.

law: pipeline_parallel.interleaved.keeps_few_micro_batches
says: forward
"""
    # region solution interleaved_one_f_one_b
    if num_micro_batches % num_ranks:
        raise ValueError(f"{num_micro_batches} micro-batches are no multiple of {num_ranks} ranks")

    chunks = range(num_chunks)
    order = [(chunk, micro_batch) for chunk in chunks for micro_batch in range(num_micro_batches)]
    schedule = []
    for rank in range(num_ranks):
        forwards = [Action(FORWARD, chunk * num_ranks + rank, micro_batch) for chunk, micro_batch in order]
        backwards = [Action(BACKWARD, (num_chunks - 1 - chunk) * num_ranks + rank, micro_batch) for chunk, micro_batch in order]
        num_warm_up = min(2 * (num_ranks - 1 - rank) + (num_chunks - 1) * num_micro_batches, len(forwards))
        schedule.append(alternating(forwards, backwards, num_warm_up))
    return schedule
    # endregion
