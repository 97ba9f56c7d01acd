"""Computes each end from the ends that it needs, recursively: a circle ends in Python's limit, and so does a long schedule.

law: pipeline_parallel.simulation.deadlocks_are_refused
says: Recursion
"""
    # region solution bubble_fraction
    last_stage = max((action.stage for actions in schedule for action in actions), default=0)
    before = {action: actions[k - 1] for actions in schedule for k, action in enumerate(actions) if k}
    occurring = {action for actions in schedule for action in actions}
    ends_s: dict[Action, float] = {}

    def end_s(action: Action) -> float:
        if action not in occurring:
            raise ValueError(f"nobody does {action}")
        if action not in ends_s:
            start_s = end_s(before[action]) if action in before else 0.0
            for ways in needed_by(action, last_stage):
                there = [way for way in ways if way in occurring]
                start_s = max(start_s, end_s(there[0] if there else ways[0]))
            ends_s[action] = start_s + costs[action.kind][action.stage]
        return ends_s[action]

    total_s = len(schedule) * max((end_s(action) for action in occurring), default=0.0)
    busy_s = sum(costs[action.kind][action.stage] for action in occurring)
    return (total_s - busy_s) / total_s if total_s else 0.0
    # endregion
