"""Bounds only what is between F and I: W is put off as long as there is anything else, and M micro-batches pile up.

law: pipeline_parallel.zero_bubble.keeps_few_micro_batches
says: micro-batch
"""
    # region solution zero_bubble
    schedule: Schedule = [[] for _ in range(num_ranks)]
    num_done = [dict.fromkeys((FORWARD, BACKWARD_INPUT, BACKWARD_WEIGHT), 0) for _ in range(num_ranks)]
    while any(done[BACKWARD_WEIGHT] < num_micro_batches for done in num_done):
        before = [dict(done) for done in num_done]
        for rank, done in enumerate(num_done):
            num_inputs = num_micro_batches if rank == 0 else before[rank - 1][FORWARD]
            num_gradients = done[FORWARD] if rank == num_ranks - 1 else before[rank + 1][BACKWARD_INPUT]
            may_begin = done[FORWARD] - done[BACKWARD_INPUT] < num_ranks - rank
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
