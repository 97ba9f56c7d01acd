"""Lets the first rank begin forwards as long as it has room: at the end, and where M < P, with micro-batches that don't exist.

law: pipeline_parallel.zero_bubble.is_complete_and_runs
says: micro-batch
"""
    # region solution zero_bubble
    schedule: Schedule = [[] for _ in range(num_ranks)]
    num_done = [dict.fromkeys((FORWARD, BACKWARD_INPUT, BACKWARD_WEIGHT), 0) for _ in range(num_ranks)]
    while any(done[BACKWARD_WEIGHT] < num_micro_batches for done in num_done):
        before = [dict(done) for done in num_done]
        for rank, done in enumerate(num_done):
            num_inputs = done[FORWARD] + 1 if rank == 0 else before[rank - 1][FORWARD]
            num_gradients = done[FORWARD] if rank == num_ranks - 1 else before[rank + 1][BACKWARD_INPUT]
            may_begin = done[FORWARD] - done[BACKWARD_INPUT] < num_ranks - rank and done[FORWARD] - done[BACKWARD_WEIGHT] < num_ranks
            if done[FORWARD] < num_inputs and may_begin:
                kind = FORWARD
            elif done[BACKWARD_INPUT] < num_gradients:
                kind = BACKWARD_INPUT
            elif done[BACKWARD_WEIGHT] < done[BACKWARD_INPUT]:
                kind = BACKWARD_WEIGHT
            else:
                continue
            schedule[rank].append(Action(kind, rank, done[kind]))
            done[kind] += 1
    return schedule
    # endregion
