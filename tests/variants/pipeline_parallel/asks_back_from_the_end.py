"""Times a schedule by memoised recursion, in fractions.
"""
# region solution bubble_fraction
from fractions import Fraction

last_stage = max((action.stage for actions in schedule for action in actions), default=0)
before = {}
for actions in schedule:
    for number, action in enumerate(actions):
        before[tuple(action)] = tuple(actions[number - 1]) if number else None
ends, asked = {}, set()

def end(action):
    if action in ends:
        return ends[action]
    if action not in before or action in asked:
        raise ValueError(f"{action} never ends")
    asked.add(action)
    begin = Fraction(0) if before[action] is None else end(before[action])
    for ways in needed_by(Action(*action), last_stage):
        there = [tuple(way) for way in ways if tuple(way) in before]
        if not there:
            raise ValueError(f"nobody does {ways}")
        begin = max([begin, *(end(way) for way in there)])
    ends[action] = begin + Fraction(costs[action[0]][action[1]])
    return ends[action]

total = len(schedule) * max((end(action) for action in before), default=Fraction(0))
busy = sum((Fraction(costs[kind][stage]) for kind, stage, _ in before), Fraction(0))
return float((total - busy) / total) if total else 0.0
# endregion
