"""A run as bars over virtual time: for every rank what it computed, when it stood still, and what the network carried for it."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from grader.errors import CourseError
from grader.pictures.words import describe
from grader.records import Event, Outcome, Request
from grader.wire.virtual_time import Span, Timeline, evaluate

MOST_BARS = 240  # a picture of more can't be read, and a page of many such is slow
LEFT, WIDTH = 70.0, 1000.0  # where time begins, and the picture's width, in its own units
ROW, THIN, GAP = 26.0, 16.0, 16.0  # a program's row, a row of the network, between two ranks
AXIS = 34.0
LETTER = 8.0  # about the width of one; a label that doesn't fit is left to the bar's title
COMPUTE_KINDS = 4  # styles that are told apart by colour and by pattern
LATENCY = 0.25  # of a message or a round of a collective, in units of the picture


@dataclass(frozen=True, slots=True)
class Played:
    """A run's events on a network that makes them easy to see. Times are in seconds of virtual time; `unit_s` is the picture's unit."""

    timeline: Timeline
    unit_s: float
    largest_bytes: int
    free: float | None  # where it would end, in units, if the network cost nothing; None where that says nothing
    stuck: dict[int, Event]  # where a rank stands for ever
    declares_compute: bool

    @property
    def network(self) -> str:
        """Which network this is, and what its unit means, in a sentence."""
        unit = "the mean of the declared computations" if self.declares_compute else "the largest message without its latency"
        size = f" plus its bytes over those of the largest call ({self.largest_bytes:,})" if self.largest_bytes else ""
        free = "" if self.free is None else " The dashed line is where it would end if the network cost nothing."
        return f"Virtual time, in units of {unit}. A message takes {LATENCY:g}{size}; no clock of this machine has a part in it.{free}"


@dataclass(frozen=True, slots=True)
class Bar:
    """A rectangle with a style, a label if it fits, and everything about it as its title."""

    x: float
    y: float
    width: float
    height: float
    style: str
    label: str
    title: str


@dataclass(slots=True)
class Picture:
    """What the template draws, and the same as rows of a table for who doesn't see it."""

    network: str
    summary: str
    height: float = AXIS
    bars: list[Bar] = field(default_factory=list)
    ranks: list[tuple[str, float, float]] = field(default_factory=list)  # name, top, height
    ticks: list[tuple[float, str]] = field(default_factory=list)
    legend: dict[str, str] = field(default_factory=dict)  # style -> words
    free: tuple[float, str] | None = None  # a dashed line
    rows: list[tuple[str, str, str, str]] = field(default_factory=list)  # rank, from, to, what
    num_left_out: int = 0
    width: float = WIDTH
    left: float = LEFT


def play(request: Request, outcome: Outcome) -> Played | None:
    """The run in virtual time; None if nothing was sent or computed, or if the events can't be played."""
    costs = [event.cost_s for event in outcome.events if event.kind == "compute" and event.cost_s > 0]
    met = [event for event in outcome.events if event.kind == "issue" and event.match >= 0]
    stuck = {rank: event for rank in range(request.world_size) if (event := stands_in(outcome, rank)) is not None}
    if not (costs or met):
        return None
    unit_s = sum(costs) / len(costs) if costs else 1.0
    largest = max((event.num_bytes for event in met), default=0)
    bandwidth = largest / unit_s if largest else math.inf
    try:
        timeline = evaluate(outcome.events, LATENCY * unit_s, bandwidth, rendezvous=request.network.rendezvous)
        free_s = evaluate(outcome.events, 0.0, math.inf, rendezvous=request.network.rendezvous).end_s
    except CourseError:
        return None
    return Played(timeline, unit_s, largest, free_s / unit_s if costs and not stuck else None, stuck, bool(costs))


def stands_in(outcome: Outcome, rank: int) -> Event | None:
    """The wait or the call that `rank` never came out of, in a run that came to a stop."""
    if outcome.fault is None or outcome.ranks[rank].answered or outcome.ranks[rank].raised is not None:
        return None
    own = [event for event in outcome.events if event.rank == rank]
    last = own[-1] if own else None
    if last is None or last.kind not in ("wait", "issue"):
        return None
    call = next((event for event in own if event.kind == "issue" and event.call == last.call), last)
    return last if call.match < 0 or outcome.fault.kind == "mismatch" else None


def draw(request: Request, outcome: Outcome) -> Picture | None:
    """The picture of a run, or None where there is nothing to draw."""
    played = play(request, outcome)
    if played is None:
        return None
    spans = [span for lane in played.timeline.lanes.values() for span in lane]
    end = max([played.timeline.end_s / played.unit_s, *(_units(span, played)[1] for span in spans)])
    end += 1.0 if played.stuck else 0.0
    if not 0 < end < math.inf:  # a probe may declare that something takes for ever
        return None
    picture = Picture(played.network, _summary(request, played))
    shown = _first_spans(played.timeline)
    styles: dict[str, str] = {}
    for rank in range(request.world_size):
        _draw_rank(picture, played, rank, shown, styles, (WIDTH - LEFT - 8) / end, end)
    picture.num_left_out = sum(map(len, played.timeline.lanes.values())) - sum(map(len, shown.values()))
    picture.ticks = [(LEFT + tick * (WIDTH - LEFT - 8) / end, f"{tick:g}") for tick in _ticks(end)]
    if played.free is not None:
        picture.free = LEFT + played.free * (WIDTH - LEFT - 8) / end, f"{played.free:.3g} if the network cost nothing"
    picture.height += AXIS / 2
    return picture


def _draw_rank(
    picture: Picture, played: Played, rank: int, shown: dict[int, list[Span]], styles: dict[str, str], scale: float, end: float
) -> None:
    top = picture.height
    network = [span for span in shown.get(rank, []) if not span.is_compute]
    tracks = _tracks(network)
    height = ROW + THIN * (max(tracks, default=-1) + 1)
    picture.ranks.append((f"rank {rank}", top, height))
    picture.height += height + GAP

    def bar(start: float, stop: float, y: float, tall: float, style: str, words: str, label: str) -> None:
        width = max((stop - start) * scale, 1.5)
        fits = label if len(label) * LETTER < width else ""
        picture.bars.append(Bar(LEFT + start * scale, y, width, tall - 3, style, fits, f"{words}, {start:.3g} to {stop:.3g}"))
        picture.rows.append((str(rank), f"{start:.3g}", f"{stop:.3g}", words))

    for span in (span for span in shown.get(rank, []) if span.is_compute):
        kind = (span.name.split() or ["compute"])[0]
        style = styles.setdefault(kind, f"compute{len(styles) % COMPUTE_KINDS}")
        picture.legend.setdefault(style, kind)
        bar(*_units(span, played), top, ROW, style, f"computes {span.name}", span.name)
    for span in played.timeline.waits.get(rank, ())[:MOST_BARS]:
        picture.legend.setdefault("waits", "stands still in a wait")
        bar(*_units(span, played), top, ROW, "waits", f"waits for {_told(span)}", "waits")
    for span, track in zip(network, tracks, strict=True):
        style = {"send": "sends", "recv": "receives"}.get(span.name, "collective")
        picture.legend.setdefault(style, {"sends": "sends", "receives": "receives"}.get(style, "takes part in a collective"))
        bar(*_units(span, played), top + ROW + THIN * track, THIN, style, _told(span), span.name)
    if rank in played.stuck:
        picture.legend["stuck"] = "waits for ever"
        last = max((_units(span, played)[1] for span in (*shown.get(rank, []), *played.timeline.waits.get(rank, ()))), default=0.0)
        bar(last, end, top, ROW, "stuck", f"waits for ever in {describe(played.stuck[rank])}", "for ever")


def _first_spans(timeline: Timeline) -> dict[int, list[Span]]:
    """At most `MOST_BARS` spans, those that begin first."""
    everything = sorted(((span.start_s, rank, number) for rank, lane in timeline.lanes.items() for number, span in enumerate(lane)))
    kept: dict[int, list[Span]] = {}
    for _, rank, number in everything[:MOST_BARS]:
        kept.setdefault(rank, []).append(timeline.lanes[rank][number])
    return kept


def _tracks(spans: Sequence[Span]) -> list[int]:
    """A row for each span such that no two overlap in one."""
    free_s: list[float] = []
    tracks = []
    for span in spans:
        track = next((number for number, ends_s in enumerate(free_s) if ends_s <= span.start_s), len(free_s))
        free_s[track : track + 1] = [span.end_s]
        tracks.append(track)
    return tracks


def _units(span: Span, played: Played) -> tuple[float, float]:
    return span.start_s / played.unit_s, span.end_s / played.unit_s


def _told(span: Span) -> str:
    return describe(span.event) if span.event is not None else span.name


def _ticks(end: float) -> Iterable[float]:
    step = next(base * 10.0**power for power in range(-3, 9) for base in (1, 2, 5) if end / (base * 10.0**power) <= 8)
    return [number * step for number in range(int(end / step) + 1)]


def _summary(request: Request, played: Played) -> str:
    """The picture in a sentence or two, for who doesn't see it."""
    told = []
    for rank in range(request.world_size):
        lane = played.timeline.lanes.get(rank, ())
        compute = sum(span.end_s - span.start_s for span in lane if span.is_compute) / played.unit_s
        waits = sum(span.end_s - span.start_s for span in played.timeline.waits.get(rank, ())) / played.unit_s
        parts = [f"computes for {compute:.3g}"] if played.declares_compute else []
        parts += [f"takes part in {sum(not span.is_compute for span in lane)} transfers", f"stands still for {waits:.3g}"]
        parts += ["then waits for ever"] if rank in played.stuck else []
        told.append(f"rank {rank} " + ", ".join(parts))
    free = f", {played.free:.3g} if the network cost nothing" if played.free is not None else ""
    return f"{played.timeline.end_s / played.unit_s:.3g} units in all{free}; " + "; ".join(told) + "."
