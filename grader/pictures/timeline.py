"""A run as bars over virtual time: what every rank computed, when it stood still, what the network carried for it; and the same at best."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from grader.errors import CourseError
from grader.pictures.canvas import GAP, KINDS, ROW, THIN, Picture, Scale
from grader.pictures.ideal import at_best
from grader.pictures.words import describe
from grader.records import Event, Outcome, Request
from grader.wire.virtual_time import Span, Timeline, evaluate

MOST_BARS = 240  # a picture of more can't be read, and a page of many such is slow
TRANSFERS = {"send": ("sends", "sends"), "recv": ("receives", "receives")}  # operation -> style and words
COLLECTIVE = ("collective", "takes part in a collective")
LATENCY = 0.25  # of a message or a round of a collective, in units of the picture


@dataclass(frozen=True, slots=True)
class Played:
    """A run's events on a network that makes them easy to see. Times are in seconds of virtual time; `unit_s` is the picture's unit."""

    timeline: Timeline
    unit_s: float
    largest_bytes: int
    best: dict[int, tuple[Span, ...]]  # the same where nobody stands still for the network; {} of a run that came to a stop
    stuck: dict[int, Event]  # where a rank stands for ever
    declares_compute: bool

    @property
    def best_end(self) -> float | None:
        """Where the ideal ends, in units."""
        return max((span.end_s for lane in self.best.values() for span in lane), default=0.0) / self.unit_s if self.best else None

    @property
    def network(self) -> str:
        """Which network this is, and what its unit means, in a sentence."""
        unit = "the mean of the declared computations" if self.declares_compute else "the largest message without its latency"
        size = f" plus its bytes over those of the largest call ({self.largest_bytes:,})" if self.largest_bytes else ""
        return f"Virtual time, in units of {unit}. A message takes {LATENCY:g}{size}; no clock of this machine has a part in it."


def play(request: Request, outcome: Outcome, phase: str | None = None) -> Played | None:
    """The run, or one phase of it, in virtual time; None if nothing was sent or computed, or if the events can't be played."""
    events = [event for event in outcome.events if phase in (None, event.phase)]
    costs = [event.cost_s for event in events if event.kind == "compute" and event.cost_s > 0]
    met = [event for event in events if event.kind == "issue" and event.match >= 0]
    stuck = {rank: event for rank in range(request.world_size) if (event := stands_in(outcome, rank)) is not None}
    if not (costs or met):
        return None
    unit_s = sum(costs) / len(costs) if costs else 1.0
    largest = max((event.num_bytes for event in met), default=0)
    bandwidth = largest / unit_s if largest else math.inf
    try:
        timeline = evaluate(events, LATENCY * unit_s, bandwidth, rendezvous=request.network.rendezvous)
        best = {} if stuck else at_best(timeline, evaluate(events, 0.0, math.inf, rendezvous=request.network.rendezvous))
    except CourseError:
        return None
    return Played(timeline, unit_s, largest, best, stuck, bool(costs))


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
    beside = " Below each rank the same at best, where nobody stands still for the network." if played.best else ""
    picture, scale = Picture(played.network + beside, _summary(request, played)), Scale(end)
    shown = _first_spans(played.timeline)
    styles: dict[str, str] = {}
    for rank in range(request.world_size):
        _draw_rank(picture, played, rank, shown, styles, scale)
        _draw_best(picture, played, rank, len(shown.get(rank, [])), styles, scale)
    picture.num_left_out = sum(map(len, played.timeline.lanes.values())) - sum(map(len, shown.values()))
    picture.ticks = scale.ticks()
    if played.best_end is not None:
        picture.marks.append((scale(played.best_end), f"{played.best_end:.3g}: the end at best"))
    return picture.close()


def _draw_rank(picture: Picture, played: Played, rank: int, shown: dict[int, list[Span]], styles: dict[str, str], scale: Scale) -> None:
    lane = shown.get(rank, [])
    network = [span for span in lane if not span.is_compute]
    tracks = _tracks(network)
    top = picture.group(f"rank {rank}", ROW + THIN * (max(tracks, default=-1) + 1))

    def bar(start: float, stop: float, y: float, tall: float, style: str, words: str, label: str) -> None:
        picture.bar(scale(start), (stop - start) * scale.unit, y, tall, style, label, f"{words}, {start:.3g} to {stop:.3g}")
        picture.rows.append((str(rank), f"{start:.3g}", f"{stop:.3g}", words))

    for span in (span for span in lane if span.is_compute):
        kind = _kind(span)
        style = styles.setdefault(kind, f"compute{len(styles) % KINDS}")
        picture.legend.setdefault(style, kind)
        bar(*_units(span, played), top, ROW, style, f"computes {span.name}", span.name)
    for span in played.timeline.waits.get(rank, ())[:MOST_BARS]:
        picture.legend.setdefault("waits", "stands still in a wait")
        bar(*_units(span, played), top, ROW, "waits", f"waits for {_told(span)}", "waits")
    for span, track in zip(network, tracks, strict=True):
        style, words = TRANSFERS.get(span.name, COLLECTIVE)
        picture.legend.setdefault(style, words)
        bar(*_units(span, played), top + ROW + THIN * track, THIN, style, _told(span), span.name)
    if rank in played.stuck:
        picture.legend["stuck"] = "waits for ever"
        last = max((_units(span, played)[1] for span in (*lane, *played.timeline.waits.get(rank, ()))), default=0.0)
        bar(last, scale.end, top, ROW, "stuck", f"waits for ever in {describe(played.stuck[rank])}", "for ever")


def _draw_best(picture: Picture, played: Played, rank: int, most: int, styles: dict[str, str], scale: Scale) -> None:
    """The ideal of what is drawn of a rank, in rows of less weight below it."""
    lane = played.best.get(rank, ())[:most]
    if not lane:
        return
    tracks = _tracks(lane)
    picture.height -= GAP / 2  # nearer to its rank than to the next
    top = picture.group("at best", THIN * (max(tracks) + 1))
    for span, track in zip(lane, tracks, strict=True):
        start, stop = _units(span, played)
        style = styles[_kind(span)] if span.is_compute else TRANSFERS.get(span.name, COLLECTIVE)[0]
        words = f"computes {span.name}" if span.is_compute else _told(span)
        title = f"at best: {words}, {start:.3g} to {stop:.3g}"
        picture.bar(scale(start), (stop - start) * scale.unit, top + THIN * track, THIN, style, "", title)
        picture.rows.append((f"{rank}, at best", f"{start:.3g}", f"{stop:.3g}", words))


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


def _kind(span: Span) -> str:
    """The first word of a computation's name."""
    return (span.name.split() or ["compute"])[0]


def _told(span: Span) -> str:
    return describe(span.event) if span.event is not None else span.name


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
    best = f", {played.best_end:.3g} at best" if played.best_end is not None else ""
    return f"{played.timeline.end_s / played.unit_s:.3g} units in all{best}; " + "; ".join(told) + "."
