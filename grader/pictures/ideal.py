"""A run at its best: the same computations and transfers, where nobody stands still for the network."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable

from grader.wire.virtual_time import MESSAGES, Span, Timeline


def at_best(ran: Timeline, free: Timeline) -> dict[int, tuple[Span, ...]]:
    """Lanes of the ideal: what is computed as `free`, the run on a network that costs nothing, has it; what travels begins when both of its
    ends have come there and its way is free, and takes as long as it did in `ran`.

    A bound from below: the program's own order of calls stays, and a rank's ways (out, in, a group's stream) carry one at a time.
    """
    lanes = {}
    for rank, lane in free.lanes.items():
        took_s = {span.event.call: span.end_s - span.start_s for span in ran.lanes[rank] if not span.is_compute and span.event is not None}
        way_is_free_s: dict[Hashable, float] = defaultdict(float)
        best = []
        for span in lane:
            if span.is_compute or span.event is None:
                best.append(span)
                continue
            way = span.name if span.name in MESSAGES else span.event.group
            start_s = max(span.start_s, way_is_free_s[way])
            way_is_free_s[way] = start_s + took_s[span.event.call]
            best.append(Span(start_s, way_is_free_s[way], span.name, False, span.event))
        lanes[rank] = tuple(best)
    return lanes
