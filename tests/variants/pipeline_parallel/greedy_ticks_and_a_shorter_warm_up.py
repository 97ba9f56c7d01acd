"""1F1B is played tick by tick, backwards first; interleaved ranks warm up with one forward for each rank behind, and not two.
"""
    # region solution one_f_one_b
    lists: list[list[Action]] = [[] for _ in range(num_ranks)]
    forwards, backwards = [0] * num_ranks, [0] * num_ranks
    while backwards[0] < num_micro_batches:
        f, b = list(forwards), list(backwards)
        for rank in range(num_ranks):
            is_last = rank == num_ranks - 1
            if b[rank] < (f[rank] if is_last else b[rank + 1]):
                lists[rank].append(Action(BACKWARD, rank, b[rank]))
                backwards[rank] += 1
            elif f[rank] < (f[rank - 1] if rank else num_micro_batches) and f[rank] - b[rank] < num_ranks - rank:
                lists[rank].append(Action(FORWARD, rank, f[rank]))
                forwards[rank] += 1
    return lists
    # endregion
    # region solution interleaved_one_f_one_b
    if num_micro_batches % num_ranks != 0:
        raise ValueError("the number of micro-batches must be a multiple of the number of ranks")
    schedule = []
    per_group, total = num_ranks * num_chunks, num_micro_batches * num_chunks
    for rank in range(num_ranks):
        actions: list[Action] = []
        num_ahead = (num_chunks - 1) * num_ranks + num_ranks - 1 - rank
        for k in range(total + num_ahead):
            for kind, place in ((FORWARD, k), (BACKWARD, k - num_ahead)):
                if 0 <= place < total:
                    group, within = divmod(place, per_group)
                    chunk, offset = divmod(within, num_ranks)
                    chunk = chunk if kind == FORWARD else num_chunks - 1 - chunk
                    actions.append(Action(kind, chunk * num_ranks + rank, group * num_ranks + offset))
        schedule.append(actions)
    return schedule
    # endregion
