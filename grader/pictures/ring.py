"""Messages step by step: in which round each goes from whom to whom, as a row of small rings."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from grader.pictures.canvas import on_circle, rim_to_rim
from grader.records import Event, Outcome, Request
from grader.wire.virtual_time import evaluate

MOST_STEPS, MOST_RANKS = 12, 8
SIZE, RADIUS = 150.0, 15.0  # of one ring, of a rank in it
CALL = "call"  # the mark that some probes set before each call


@dataclass(frozen=True, slots=True)
class Step:
    """One round."""

    number: int
    arrows: tuple[tuple[float, float, float, float, str], ...]  # with what the message is


@dataclass(frozen=True, slots=True)
class Ring:
    """What the template draws of it."""

    caption: str
    summary: str
    steps: tuple[Step, ...]
    nodes: tuple[tuple[int, float, float], ...]
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    num_left_out: int
    size: float = SIZE
    radius: float = RADIUS


def draw(request: Request, outcome: Outcome) -> Ring | None:
    """The first call of a run that sends messages, on a network where each takes one round; None if there is none or the ranks are many."""
    if request.world_size > MOST_RANKS or outcome.fault is not None:
        return None
    events = _first_call(outcome.events)
    if not any(event.op == "send" for event in events):
        return None
    played = evaluate(events, 1.0, math.inf, rendezvous=request.network.rendezvous)
    rounds: dict[int, dict[tuple[int, int], list[int]]] = defaultdict(lambda: defaultdict(list))
    for lane in played.lanes.values():
        for span in lane:
            if span.name == "send" and span.event is not None:
                rounds[round(span.start_s)][span.event.rank, span.event.peer].append(span.event.num_bytes)
    nodes = {rank: on_circle(rank, request.world_size, SIZE) for rank in range(request.world_size)}
    steps, rows = [], []
    for number in sorted(rounds)[:MOST_STEPS]:
        arrows = []
        for (source, target), sizes in sorted(rounds[number].items()):
            words = f"{sum(sizes):,} bytes" + (f" in {len(sizes)} messages" if len(sizes) > 1 else "")
            arrows.append((*rim_to_rim(nodes[source], nodes[target], RADIUS), f"rank {source} to rank {target}: {words}"))
            rows.append((str(number + 1), str(source), str(target), words))
        steps.append(Step(number + 1, tuple(arrows)))
    caption = "Each message takes one round, whatever its size; a rank sends one at a time and receives one at a time."
    shown = tuple((rank, x, y) for rank, (x, y) in nodes.items())
    return Ring(caption, _summary(rounds, request.world_size), tuple(steps), shown, ("round", "from", "to", "what"), tuple(rows),
                max(0, len(rounds) - MOST_STEPS))  # fmt: skip


def _first_call(events: Sequence[Event]) -> list[Event]:
    """Of each rank what happened in the first phase in which anything was sent, and there in the first call."""
    phase = next((event.phase for event in events if event.op == "send"), "")
    kept, num_calls = [], defaultdict[int, int](int)
    for event in (event for event in events if event.phase == phase):
        num_calls[event.rank] += event.kind == "mark" and event.name == CALL
        if num_calls[event.rank] <= 1:
            kept.append(event)
    return kept


def _summary(rounds: dict[int, dict[tuple[int, int], list[int]]], num_ranks: int) -> str:
    sent: dict[int, int] = dict.fromkeys(range(num_ranks), 0)
    for messages in rounds.values():
        for (source, _), sizes in messages.items():
            sent[source] += sum(sizes)
    least, most = min(sent.values()), max(sent.values())
    each = f"each rank sends {least:,} bytes" if least == most else f"a rank sends {least:,} to {most:,} bytes"
    pairs = {pair for messages in rounds.values() for pair in messages}
    return f"{len(rounds)} round{'s' * (len(rounds) != 1)} on {num_ranks} ranks, over {len(pairs)} links; {each} in all."
