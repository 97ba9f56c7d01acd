"""Starts an action when the rank that sends is free, and not when the one action that it needs was over.

law: pipeline_parallel.simulation.bubble_is_idle_over_total
says: bubble
"""
    # region solution bubble_fraction
    last_stage = max((action.stage for actions in schedule for action in actions), default=0)
    rank_of = {action: rank for rank, actions in enumerate(schedule) for action in actions}
    done: set[Action] = set()
    clock_s, position = [0.0] * len(schedule), [0] * len(schedule)
    moves = True
    while moves:
        moves = False
        for rank, actions in enumerate(schedule):
            while position[rank] < len(actions):
                action = actions[position[rank]]
                needed = needed_by(action, last_stage)
                if not all(any(way in done for way in ways) for ways in needed):
                    break
                senders_s = [clock_s[rank_of[way]] for ways in needed for way in ways if way in done]
                clock_s[rank] = max([clock_s[rank], *senders_s]) + costs[action.kind][action.stage]
                done.add(action)
                position[rank] += 1
                moves = True
    if any(position[rank] < len(actions) for rank, actions in enumerate(schedule)):
        raise ValueError("the schedule comes to no end")
    total_s = len(schedule) * max(clock_s, default=0.0)
    busy_s = sum(costs[action.kind][action.stage] for actions in schedule for action in actions)
    return (total_s - busy_s) / total_s if total_s else 0.0
    # endregion
