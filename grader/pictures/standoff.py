"""Ranks that came to a stop: call by call, the first that never met its counterpart, and who waits for whom."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from grader.pictures.canvas import on_circle, rim_to_rim
from grader.pictures.timeline import stands_in
from grader.pictures.words import Sources, describe
from grader.records import Event, Outcome, num_elements

KINDS = ("deadlock", "mismatch", "idle", "silent")
BEFORE, AFTER = 3, 5  # rows around the first divergence that are shown
MOST_RANKS = 8
SIZE = 300.0  # of the picture, in its own units
MESSAGES = ("send", "recv")


@dataclass(frozen=True, slots=True)
class Cell:
    """One call of one rank."""

    words: str
    line: str  # the student's
    state: str  # met | apart | waits | none
    says: str  # the state in a word


@dataclass(frozen=True, slots=True)
class Standoff:
    """What the template shows of it."""

    ranks: tuple[int, ...]
    rows: tuple[tuple[int, bool, tuple[Cell, ...]], ...]  # number of the call, whether it is the first divergence, a cell per rank
    num_before: int  # calls that all met, before the first row
    edges: tuple[tuple[int, int], ...]  # who waits for whom
    is_held: bool  # the calls do fit together: it is the judge who answers none of them
    sentences: tuple[str, ...]
    nodes: tuple[tuple[int, float, float], ...]
    arrows: tuple[tuple[float, float, float, float], ...]
    size: float = SIZE


def find(outcome: Outcome, sources: Sources) -> Standoff | None:
    """The stand-off that ended a run; None if it ended otherwise."""
    if outcome.fault is None or outcome.fault.kind not in KINDS:
        return None
    ranks = tuple(range(min(len(outcome.ranks), MOST_RANKS)))
    calls = {rank: [event for event in outcome.events if event.rank == rank and event.kind == "issue"] for rank in ranks}
    if not any(calls.values()):
        return None
    stands = {rank: event for rank in ranks if (event := stands_in(outcome, rank)) is not None}
    apart = _apart(outcome.events)
    first = min((number for own in calls.values() for number, event in enumerate(own) if (event.rank, event.call) in apart), default=None)
    middle = first if first is not None else max(map(len, calls.values())) - 1
    start = max(0, middle - BEFORE)
    rows = []
    for number in range(start, min(middle + AFTER, max(map(len, calls.values())))):
        cells = tuple(_cell(calls[rank], number, apart, stands.get(rank), sources) for rank in ranks)
        rows.append((number + 1, number == first, cells))
    edges = tuple((rank, other) for rank, event in stands.items() for other in _needs(event, calls, apart) if other in calls)
    nodes = {rank: on_circle(rank, len(ranks), SIZE) for rank in ranks}
    arrows = tuple(rim_to_rim(nodes[a], nodes[b]) for a, b in edges if a != b)
    sentences = outcome.fault.lines or (outcome.fault.sentence,)
    is_held = bool(stands) and not edges and all(event.op not in MESSAGES for event in stands.values())
    return Standoff(ranks, tuple(rows), start, edges, is_held, sentences, tuple((rank, x, y) for rank, (x, y) in nodes.items()), arrows)


def _apart(events: Sequence[Event]) -> set[tuple[int, int]]:
    """(rank, call) of all that never met, or met what it doesn't belong with."""
    meetings: dict[int, list[Event]] = {}
    for event in events:
        if event.kind == "issue" and event.match >= 0:
            meetings.setdefault(event.match, []).append(event)
    alone = {(event.rank, event.call) for event in events if event.kind == "issue" and event.match < 0}
    for met in meetings.values():
        features = {(event.op, event.reduction, event.dtype, num_elements(event.shape)) for event in met}
        if met[0].op not in MESSAGES and len(features) > 1:
            alone |= {(event.rank, event.call) for event in met}
    return alone


def _cell(own: Sequence[Event], number: int, apart: set[tuple[int, int]], stand: Event | None, sources: Sources) -> Cell:
    if number >= len(own):
        return Cell("", "", "none", "no such call")
    event = own[number]
    line = sources.line(event.at)
    if stand is not None and stand.call == event.call:
        return Cell(describe(event), line, "waits", f"waits here{f' ({stand.at})' if stand.at not in ('', event.at) else ''}")
    is_apart = (event.rank, event.call) in apart
    return Cell(describe(event), line, "apart" if is_apart else "met", "never met its counterpart" if is_apart else "met")


def _needs(stand: Event, calls: dict[int, list[Event]], apart: set[tuple[int, int]]) -> list[int]:
    """The ranks whose call is missing for the one that `stand` waits for; none if all have come and the judge holds the answer back."""
    call = next((event for event in calls[stand.rank] if event.call == stand.call), stand)
    if call.op in MESSAGES:
        return [call.peer] if call.peer >= 0 else [rank for rank in call.group if rank != call.rank]
    alike = (call.op, call.group, call.reduction, call.dtype, num_elements(call.shape))
    there = {
        event.rank
        for own in calls.values()
        for event in own
        if (event.op, event.group, event.reduction, event.dtype, num_elements(event.shape)) == alike and (event.rank, event.call) in apart
    }
    return [rank for rank in call.group if rank not in there]
