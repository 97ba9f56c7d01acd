"""Plays rounds: every rank does one action if it can, and the round lasts as long as its longest action.

law: pipeline_parallel.simulation.stages_may_cost_differently
says: bubble
"""
    # region solution bubble_fraction
    last_stage = max((action.stage for actions in schedule for action in actions), default=0)
    done: set[Action] = set()
    position, now_s = [0] * len(schedule), 0.0
    while any(position[rank] < len(actions) for rank, actions in enumerate(schedule)):
        round_ = []
        for rank, actions in enumerate(schedule):
            if position[rank] < len(actions):
                action = actions[position[rank]]
                if all(any(way in done for way in ways) for ways in needed_by(action, last_stage)):
                    round_.append(action)
                    position[rank] += 1
        if not round_:
            raise ValueError("the schedule comes to no end")
        done.update(round_)
        now_s += max(costs[action.kind][action.stage] for action in round_)
    total_s = len(schedule) * now_s
    busy_s = sum(costs[action.kind][action.stage] for actions in schedule for action in actions)
    return (total_s - busy_s) / total_s if total_s else 0.0
    # endregion
