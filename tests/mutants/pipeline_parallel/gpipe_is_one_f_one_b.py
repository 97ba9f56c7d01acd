"""Returns 1F1B for GPipe: less memory and the same bubble, but not what was asked.

law: pipeline_parallel.gpipe.forwards_come_first
says: forward
"""
    # region solution gpipe
    schedule = []
    for rank in range(num_ranks):
        num_warm_up = min(num_ranks - 1 - rank, num_micro_batches)
        actions = [Action(FORWARD, rank, micro_batch) for micro_batch in range(num_warm_up)]
        for micro_batch in range(num_micro_batches):
            if num_warm_up + micro_batch < num_micro_batches:
                actions.append(Action(FORWARD, rank, num_warm_up + micro_batch))
            actions.append(Action(BACKWARD, rank, micro_batch))
        schedule.append(actions)
    return schedule
    # endregion
