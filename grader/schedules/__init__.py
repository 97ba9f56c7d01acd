"""Pipeline schedules: what each rank computes, in order. Checked, timed, and compared with what was published, before anything runs.

    findings = check(schedule, num_ranks=4, num_micro_batches=8, chunks=1)     # () if the schedule is valid
    timeline = simulate(schedule, costs)                                       # raises Deadlock: who waits for whom
    timeline.bubble_fraction == published_bubble("1f1b", num_ranks=4, num_micro_batches=8)

NumPy isn't needed; costs may be ints, floats or Fractions, and times are of the same kind.
"""

from grader.schedules.actions import (
    BACKWARD,
    BACKWARD_INPUT,
    BACKWARD_WEIGHT,
    FORWARD,
    Action,
    Schedule,
    from_rows,
    needs,
    num_stages_of,
    to_rows,
)
from grader.schedules.check import Finding, check
from grader.schedules.depth import depth
from grader.schedules.published import published_bubble, published_depth
from grader.schedules.simulate import Costs, Deadlock, Span, Timeline, equal_costs, simulate

__all__ = [
    "BACKWARD",
    "BACKWARD_INPUT",
    "BACKWARD_WEIGHT",
    "FORWARD",
    "Action",
    "Costs",
    "Deadlock",
    "Finding",
    "Schedule",
    "Span",
    "Timeline",
    "check",
    "depth",
    "equal_costs",
    "from_rows",
    "needs",
    "num_stages_of",
    "published_bubble",
    "published_depth",
    "simulate",
    "to_rows",
]
