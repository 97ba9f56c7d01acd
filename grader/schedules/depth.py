"""How many micro-batches a rank keeps: with the forward begun and the backward not yet ended."""

from __future__ import annotations

from collections.abc import Sequence

from grader.schedules.actions import BACKWARD, BACKWARD_WEIGHT, FORWARD, Action


def depth(actions: Sequence[Action]) -> int:
    """The largest number of (stage, micro-batch) in flight in one rank's order: from F to B, or to W where the backward is split."""
    num_in_flight = peak = 0
    for action in actions:
        if action.kind == FORWARD:
            num_in_flight += 1
            peak = max(peak, num_in_flight)
        elif action.kind in (BACKWARD, BACKWARD_WEIGHT):
            num_in_flight -= 1
    return peak
