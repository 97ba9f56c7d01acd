"""What the laws of `simulation` mean: schedules with costs are handed in, and timed by grader.schedules as well."""

from __future__ import annotations

import math
from typing import Any

from grader.schedules import Deadlock, Schedule, Timeline, from_rows, simulate, to_rows
from tests.laws.pipeline_parallel.drawing import drawn
from tests.laws.sentences import broken

Case = dict[str, Any]
NO_DEVICE = "a schedule is timed on the host"
SIGNIFICANT = 1e-9  # thousands of additions in float64, each with 1e-16


def case_of(schedule: Schedule, costs: dict[str, list[float]]) -> Case:
    """One question to bubble_fraction."""
    return {"schedule": to_rows(schedule), "costs": {kind: list(map(float, each)) for kind, each in costs.items()}}


def equal(schedule: Schedule, num_stages: int, **seconds: float) -> Case:
    """The same cost on all stages."""
    return case_of(schedule, {kind: [cost_s] * num_stages for kind, cost_s in seconds.items()})


def run_bubbles(observe: Any, cases: list[Case], **case: Any) -> Any:
    """bubble_fraction of each of the cases."""
    return observe("bubbles", world_size=1, transport="none", host=NO_DEVICE, cases=cases, **case)


def judge_bubbles(seen: Any) -> None:
    """Each number is idle over total; each deadlock a ValueError."""
    for case, answer in zip(seen.request.parameters["cases"], seen.facts(0)["bubbles"], strict=True):
        schedule = from_rows(case["schedule"])
        try:
            timeline = simulate(schedule, case["costs"])
        except Deadlock as deadlock:
            if answer != "ValueError":
                seen_words = f"bubble_fraction returns {answer} for a schedule that can't come to its end."
                raise broken(seen_words, "Expected: ValueError.", "A deadlock went unnoticed: some actions were never done.",
                             str(deadlock), where=drawn(schedule)) from None  # fmt: skip
            continue
        judge_number(timeline, schedule, case["costs"], answer)


def judge_number(timeline: Timeline, schedule: Schedule, costs: dict[str, list[float]], answer: Any) -> None:
    """One answer about a schedule that comes to its end."""
    expected = float(timeline.bubble_fraction)
    if answer == "ValueError":
        raise broken("bubble_fraction raises ValueError for a schedule that comes to its end.", f"Expected: {expected:.6g}.",
                     "Ranks may stand in any order, and an action may have to wait for a rank that is looked at later.",
                     "Go through the ranks again until a whole round has moved nobody.", where=drawn(schedule))  # fmt: skip
    if math.isclose(answer, expected, rel_tol=SIGNIFICANT, abs_tol=SIGNIFICANT):
        return
    spoken = "; ".join(f"{kind}: {', '.join(f'{cost_s:g}' for cost_s in each)}" for kind, each in costs.items())
    raise broken(
        f"bubble_fraction is {answer:.6g}, with these costs by stage: {spoken}.",
        f"Expected: {expected:.6g}; the step takes {float(timeline.end_s):g} seconds.",
        suspect(answer, timeline),
        "Draw the schedule on paper, with each action as soon as its rank and its needs allow.",
        where=drawn(schedule),
    )


def suspect(answer: float, timeline: Timeline) -> str:
    """What a wrong number suggests."""
    expected, num_ranks = float(timeline.bubble_fraction), len(timeline.lanes)
    idle_s = [float(timeline.idle_s(rank)) for rank in range(num_ranks)]
    end_s = float(timeline.end_s)
    spans = sum(float(lane[-1].end_s - lane[0].start_s) for lane in timeline.lanes if lane)
    busy_s = end_s * num_ranks - sum(idle_s)
    known = {
        "idle over useful time; here it is over the total": sum(idle_s) / busy_s if busy_s else -1,
        "the share that is busy": 1 - expected,
        "the idle time in seconds, not yet divided by the total": sum(idle_s),
        "idle time over the time of one rank, not of all": sum(idle_s) / end_s if end_s else -1,
        "the first rank's share alone": idle_s[0] / end_s if end_s else -1,
        "the last rank's share alone": idle_s[-1] / end_s if end_s else -1,
        "the largest share of a rank": max(idle_s) / end_s if end_s else -1,
        "what it is when the time before a rank's first action and after its last isn't counted": (spans - busy_s) / spans if spans else -1,
    }
    for name, value in known.items():
        if math.isclose(answer, value, rel_tol=1e-6, abs_tol=1e-9):
            return f"That is {name}."
    if answer < expected:
        return "Too small: an action begins before what it needs is there, or some idle time isn't counted."
    return "Too large: an action begins later than rank and needs allow, or something is counted twice."
