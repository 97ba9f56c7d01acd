"""Goes round the ranks until all lists are done, which in a deadlock never happens.

law: pipeline_parallel.simulation.deadlocks_are_refused
says: CPU
"""
    # region solution bubble_fraction
    last_stage = max((action.stage for actions in schedule for action in actions), default=0)
    end_s: dict[Action, float] = {}
    clock_s, position = [0.0] * len(schedule), [0] * len(schedule)

    while any(position[rank] < len(actions) for rank, actions in enumerate(schedule)):
        for rank, actions in enumerate(schedule):
            while position[rank] < len(actions):
                action = actions[position[rank]]
                needed = needed_by(action, last_stage)
                if not all(any(way in end_s for way in ways) for ways in needed):
                    break
                arrivals_s = [end_s[way] for ways in needed for way in ways if way in end_s]
                end_s[action] = clock_s[rank] = max([clock_s[rank], *arrivals_s]) + costs[action.kind][action.stage]
                position[rank] += 1

    total_s = len(schedule) * max(clock_s, default=0.0)
    busy_s = sum(costs[action.kind][action.stage] for actions in schedule for action in actions)
    return (total_s - busy_s) / total_s if total_s else 0.0
    # endregion
