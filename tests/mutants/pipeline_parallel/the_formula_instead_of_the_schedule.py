"""Counts ranks and micro-batches and returns (P-1)/(M+P-1), whatever the schedule does.

law: pipeline_parallel.simulation.bubble_is_idle_over_total
says: bubble
"""
    # region solution bubble_fraction
    last_stage = max((action.stage for actions in schedule for action in actions), default=0)
    end_s: dict[Action, float] = {}
    clock_s, position = [0.0] * len(schedule), [0] * len(schedule)

    moves = True
    while moves:
        moves = False
        for rank, actions in enumerate(schedule):
            while position[rank] < len(actions):
                action = actions[position[rank]]
                needed = needed_by(action, last_stage)
                if not all(any(way in end_s for way in ways) for ways in needed):
                    break
                arrivals_s = [end_s[way] for ways in needed for way in ways if way in end_s]
                end_s[action] = clock_s[rank] = max([clock_s[rank], *arrivals_s]) + costs[action.kind][action.stage]
                position[rank] += 1
                moves = True

    stuck = [(rank, actions[position[rank]]) for rank, actions in enumerate(schedule) if position[rank] < len(actions)]
    if stuck:
        raise ValueError(f"the schedule comes to no end; (rank, what it can't begin): {stuck}")
    total_s = len(schedule) * max(clock_s, default=0.0)
    micro_batches = {action.micro_batch for actions in schedule for action in actions}
    num_chunks = max((len({action.stage for action in actions}) for actions in schedule), default=0)
    if not total_s:
        return 0.0
    return (len(schedule) - 1) / (num_chunks * len(micro_batches) + len(schedule) - 1)
    # endregion
