"""Plays events from a heap; GPipe's lists are tuples, and every rank goes backward from the latest micro-batch to the first.
"""
    # region solution bubble_fraction
    import heapq

    occurring = {action for actions in schedule for action in actions}
    last_stage = max((action.stage for action in occurring), default=0)
    queues = [list(reversed(actions)) for actions in schedule]
    done: set[Action] = set()
    is_free = [True] * len(queues)
    events: list[tuple[float, int, Action]] = []
    now_s = busy_s = 0.0
    while True:
        for rank, queue in enumerate(queues):
            if is_free[rank] and queue and all(done.intersection(ways) for ways in needed_by(queue[-1], last_stage)):
                action = queue.pop()
                cost_s = costs[action.kind][action.stage]
                busy_s += cost_s
                is_free[rank] = False
                heapq.heappush(events, (now_s + cost_s, rank, action))
        if not events:
            break
        now_s, rank, action = heapq.heappop(events)
        is_free[rank] = True
        done.add(action)
    if any(queues):
        raise ValueError("nobody can go on, and something is left")
    return 1.0 - busy_s / (len(queues) * now_s) if now_s else 0.0
    # endregion
    # region solution gpipe
    schedule = []
    for rank in range(num_ranks):
        forwards = tuple(Action(FORWARD, rank, m) for m in range(num_micro_batches))
        backwards = tuple(Action(BACKWARD, rank, m) for m in reversed(range(num_micro_batches)))
        schedule.append(forwards + backwards)
    return schedule
    # endregion
