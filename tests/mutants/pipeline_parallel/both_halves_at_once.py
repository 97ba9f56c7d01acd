"""Is 1F1B with I and W in place of each B, one right after the other: the stage before waits as long as ever.

law: pipeline_parallel.zero_bubble.has_the_published_bubble
says: step
"""
    # region solution zero_bubble
    schedule: Schedule = []
    for rank in range(num_ranks):
        num_warm_up = min(num_ranks - 1 - rank, num_micro_batches)
        actions = [Action(FORWARD, rank, micro_batch) for micro_batch in range(num_warm_up)]
        for micro_batch in range(num_micro_batches):
            if num_warm_up + micro_batch < num_micro_batches:
                actions.append(Action(FORWARD, rank, num_warm_up + micro_batch))
            actions += [Action(BACKWARD_INPUT, rank, micro_batch), Action(BACKWARD_WEIGHT, rank, micro_batch)]
        schedule.append(actions)
    return schedule
    # endregion
