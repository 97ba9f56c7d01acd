"""Over gloo the judge has only the recorder's word: who waits in what, which recorded calls don't belong together, who hangs."""

from __future__ import annotations

import re
from collections.abc import Sequence

from grader.records import Event, Fault, Limits, TensorSpec, num_elements
from grader.wire.calls import MESSAGES
from grader.wire.seat import Seat
from grader.wire.trace import Trace, recorded_operations

SPELLED_OUT = 3  # waits named in one sentence; the fault's lines have all
LOST_ITS_PEER = "a rank that it was talking to has gone"
PEER_IS_GONE = re.compile(r"closed by peer|reset by peer|Read error|Broken pipe", re.IGNORECASE)
SAME_SHAPE = frozenset({"all_reduce", "reduce", "broadcast", "reduce_scatter", "gather", "all_gather"})


def open_call(seat: Seat) -> Event | None:
    """The recorded call that a rank is in, the one it waits for first."""
    for number in seat.awaited:
        if number in seat.open_calls:
            return seat.open_calls[number]
    return next(iter(seat.open_calls.values()), None)


def describe(event: Event) -> str:
    """A recorded call in the words of `Call.__str__`."""
    text = event.op + (f"({event.reduction})" if event.reduction else "")
    text += f" {TensorSpec(event.dtype, event.shape)}" if event.dtype else ""
    if event.op in MESSAGES:
        text += (" to " if event.op == "send" else " from ") + (f"rank {event.peer}" if event.peer >= 0 else "any rank")
        text += f" tag {event.tag}" if event.tag else ""
    return text + (f" ({event.at})" if event.at else "")


def waits_of(seats: Sequence[Seat]) -> list[str]:
    """One line for every live rank that is in a call."""
    calls = [(seat.rank, open_call(seat) or next(iter(seat.waits.values()), None)) for seat in seats if seat.is_live]
    return [f"rank {rank} waits in {describe(call) if isinstance(call, Event) else call}" for rank, call in calls if call is not None]


def spelled_out(waits: Sequence[str]) -> str:
    """The first few of what is said of ranks, and how many more there are."""
    return "; ".join(waits[:SPELLED_OUT]) + (f"; and {len(waits) - SPELLED_OUT} more" if len(waits) > SPELLED_OUT else "")


def fault_of_hang(seats: Sequence[Seat], limits: Limits, is_on_gpu: bool) -> Fault:
    """All live ranks are in a call and have been idle for `idle_s`; on a GPU: have said nothing, whatever their CPU clocks say."""
    lines = waits_of(seats)
    what = "gone on" if is_on_gpu else "used any CPU"
    return Fault("deadlock", -1, f"deadlock: no rank has {what} for {limits.idle_s:g} s: {spelled_out(lines)}", tuple(lines))


def is_consequence(fault: Fault) -> bool:
    """The rank fell because another one had gone."""
    return fault.kind == "raised" and LOST_ITS_PEER in fault.sentence


def fault_of_recorded_quarrel(traces: Sequence[Trace]) -> Fault | None:
    """The first recorded calls that met and don't belong together: gloo aborts on some, hangs on some, and is silent on others."""
    for calls in recorded_operations(traces):
        first = calls[0]
        for call in calls[1:]:
            what = _disagreement(first, call)
            if what:
                lines = tuple(f"rank {each.rank} calls {describe(each)}" for each in calls)
                return Fault("mismatch", -1, f"{what} mismatch: {lines[0]}, {lines[calls.index(call)]}", lines)
    return None


def _disagreement(a: Event, b: Event) -> str:
    """What two calls that met disagree on; "" if nothing."""
    is_message = a.op in MESSAGES
    if a.op != b.op and not is_message:
        return "operation"
    if a.reduction != b.reduction:
        return "reduction"
    if a.facts.get("root") != b.facts.get("root"):
        return "root"
    if is_message or a.op in SAME_SHAPE:
        if a.dtype != b.dtype:
            return "dtype"
        if num_elements(a.shape) != num_elements(b.shape):
            return "shape"
    return ""
