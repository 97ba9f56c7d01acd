"""Virtual time: how long a run's trace takes on a network of a given latency and bandwidth, with the costs that the probe declared.

A recurrence over program order and matches: no clock, no scheduler, no order of arrival enters, so equal programs get equal times.
The network is Hockney's: a message of s bytes takes latency + s / bandwidth, and a rank sends one message and receives one at a time.
Collectives run on their group's own stream, at the cost of the ring (or tree) algorithm, one after the other.
"""

from __future__ import annotations

import heapq
import math
from collections import defaultdict
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field

from grader.errors import CourseError
from grader.records import Event

MESSAGES = ("send", "recv")


@dataclass(frozen=True, slots=True)
class Span:
    """Something that a rank, or the network on its behalf, was busy with."""

    start_s: float
    end_s: float
    name: str  # of the declared compute, or the operation
    is_compute: bool
    event: Event | None = field(default=None, compare=False, repr=False)  # what it comes from, for who draws it


@dataclass(frozen=True, slots=True)
class Timeline:
    """When everything happened. `end_s`: the last rank's program has ended; what is in flight without a wait or a join doesn't count."""

    end_s: float
    lanes: dict[int, tuple[Span, ...]]
    waits: dict[int, tuple[Span, ...]] = field(default_factory=dict)  # when a rank's program stood still, and in which call

    def idle_fraction(self, rank: int) -> float:
        """Share of the whole time in which `rank` computes nothing: a pipeline's bubble."""
        busy_s = sum(span.end_s - span.start_s for span in self.lanes[rank] if span.is_compute)
        return 1 - busy_s / self.end_s if self.end_s else 0.0


def evaluate(
    events: Sequence[Event], latency_s: float, bandwidth_bytes_per_s: float, phase: str | None = None, rendezvous: bool = True
) -> Timeline:
    """Play `events` (each rank's in program order) on a network.

    phase: only what happened in it counts, from its start on each rank; what was issued before has landed.
    rendezvous: a send ends with its transfer; False: at once, and the transfer begins without its receive.
    CourseError if the events can't be played, e.g. a run with buffered sends played with rendezvous.
    """
    window = [event for event in events if phase is None or event.phase == phase]
    return _Play(window, latency_s, bandwidth_bytes_per_s, rendezvous).timeline()


def collective_seconds(op: str, num_ranks: int, num_bytes: int, latency_s: float, bandwidth_bytes_per_s: float) -> float:
    """Cost of one collective whose largest contribution is `num_bytes`: a ring for the symmetric ones, a pipelined tree for the rooted."""
    n, wire_s = num_ranks, num_bytes / bandwidth_bytes_per_s
    if n == 1:
        return 0.0
    match op:
        case "all_reduce":
            return 2 * (n - 1) * latency_s + 2 * (n - 1) / n * wire_s
        case "all_gather":
            return (n - 1) * (latency_s + wire_s)
        case "reduce_scatter" | "all_to_all":
            return (n - 1) * latency_s + (n - 1) / n * wire_s
        case _:
            return math.ceil(math.log2(n)) * latency_s + wire_s


@dataclass(slots=True)
class _Transfer:
    """One matched operation: its issue events inside the window, and when each of its ranks came to it."""

    issues: list[Event] = field(default_factory=list)
    arrivals_s: list[float] = field(default_factory=list)
    end_s: float | None = None
    is_under_way: bool = False

    @property
    def is_message(self) -> bool:
        return self.issues[0].op in MESSAGES

    def resources(self) -> list[Hashable]:
        """What it has to itself while it lasts: a sender's way out, a receiver's way in, or the group's stream on each rank."""
        first = self.issues[0]
        if self.is_message:
            return [(issue.op, issue.rank) for issue in self.issues]
        return [(first.group, str(first.facts.get("group", "")), issue.rank) for issue in self.issues]


class _Play:
    """The ranks advance along their events until each is blocked; then the transfer that can begin first is carried out; and so on."""

    def __init__(self, events: Sequence[Event], latency_s: float, bandwidth_bytes_per_s: float, rendezvous: bool) -> None:
        self._latency_s, self._bandwidth, self._rendezvous = latency_s, bandwidth_bytes_per_s, rendezvous
        self._programs: dict[int, list[Event]] = defaultdict(list)
        self._transfers: dict[int, _Transfer] = defaultdict(_Transfer)
        self._of_call: dict[tuple[int, int], _Transfer] = {}
        for event in events:
            self._programs[event.rank].append(event)
            if event.kind == "issue" and event.match >= 0:
                transfer = self._transfers[event.match]
                transfer.issues.append(event)
                self._of_call[event.rank, event.call] = transfer
        self._clock_s = dict.fromkeys(self._programs, 0.0)
        self._position = dict.fromkeys(self._programs, 0)
        self._in_flight: dict[int, list[_Transfer]] = defaultdict(list)
        self._blocked: dict[int, list[int]] = defaultdict(list)  # id of a transfer -> ranks that wait for it
        self._free_s: dict[Hashable, float] = defaultdict(float)
        self._ready: list[tuple[float, float, int, int, _Transfer]] = []
        self._lanes: dict[int, list[Span]] = {rank: [] for rank in self._programs}
        self._waits: dict[int, list[Span]] = {rank: [] for rank in self._programs}

    def timeline(self) -> Timeline:
        for rank in sorted(self._programs):
            self._advance(rank)
        while self._ready:
            self._carry_out_the_first()
        stuck = [rank for rank, program in self._programs.items() if self._position[rank] < len(program)]
        if stuck:
            raise CourseError(f"in virtual time ranks {stuck} never end; was the run made with buffered sends and played with rendezvous?")
        lanes = {rank: tuple(sorted(spans, key=lambda span: (span.start_s, span.end_s))) for rank, spans in sorted(self._lanes.items())}
        return Timeline(max(self._clock_s.values(), default=0.0), lanes, {rank: tuple(spans) for rank, spans in self._waits.items()})

    # --- ranks
    def _advance(self, rank: int) -> None:
        program = self._programs[rank]
        while self._position[rank] < len(program):
            awaited = self._blocking(rank, program[self._position[rank]])
            unfinished = next((transfer for transfer in awaited if transfer.end_s is None), None)
            if unfinished is not None:
                self._blocked[id(unfinished)].append(rank)
                return
            event, before_s = program[self._position[rank]], self._clock_s[rank]
            self._clock_s[rank] = max([before_s, *(transfer.end_s or 0.0 for transfer in awaited)])
            if self._clock_s[rank] > before_s:
                self._waits[rank].append(Span(before_s, self._clock_s[rank], event.op or event.kind, False, event))
            self._do(rank, event)
            self._position[rank] += 1

    def _blocking(self, rank: int, event: Event) -> list[_Transfer]:
        """What must have landed before `rank` gets past `event`."""
        if event.kind == "join":
            return self._in_flight[rank]
        if event.kind != "wait" or event.facts.get("how") == "future":  # a future is asked for without blocking on it; a join does
            return []
        transfer = self._of_call.get((rank, event.call))
        is_buffered_send = transfer is not None and event.op == "send" and not self._rendezvous
        return [] if transfer is None or is_buffered_send else [transfer]

    def _do(self, rank: int, event: Event) -> None:
        now_s = self._clock_s[rank]
        if event.kind == "compute":
            self._clock_s[rank] = now_s + event.cost_s
            self._lanes[rank].append(Span(now_s, now_s + event.cost_s, event.name, True, event))
        elif event.kind == "join":
            self._in_flight[rank] = []
        elif event.kind == "issue" and event.match >= 0:
            self._arrive(self._transfers[event.match], event, now_s)

    def _arrive(self, transfer: _Transfer, event: Event, now_s: float) -> None:
        self._in_flight[event.rank].append(transfer)
        is_eager = transfer.is_message and not self._rendezvous and any(issue.op == "send" for issue in transfer.issues)
        if not is_eager or event.op == "send":
            transfer.arrivals_s.append(now_s)
        if len(transfer.arrivals_s) == (1 if is_eager else len(transfer.issues)) and not transfer.is_under_way:
            transfer.is_under_way = True
            first = transfer.issues[0]
            ready_s = max(transfer.arrivals_s)
            heapq.heappush(self._ready, (ready_s, ready_s, first.rank, first.call, transfer))

    # --- the network
    def _carry_out_the_first(self) -> None:
        """Starts never go back in time: whoever a transfer wakes comes to its next one after that transfer's end."""
        earliest_s, ready_s, rank, call, transfer = heapq.heappop(self._ready)
        resources = transfer.resources()
        start_s = max([ready_s, *(self._free_s[resource] for resource in resources)])
        if start_s > earliest_s:
            heapq.heappush(self._ready, (start_s, ready_s, rank, call, transfer))
            return
        transfer.end_s = end_s = start_s + self._seconds(transfer)
        for resource in resources:
            self._free_s[resource] = end_s
        for issue in transfer.issues:
            self._lanes[issue.rank].append(Span(start_s, end_s, issue.op, False, issue))
        for waiting in self._blocked.pop(id(transfer), []):
            self._advance(waiting)

    def _seconds(self, transfer: _Transfer) -> float:
        num_bytes = max(issue.num_bytes for issue in transfer.issues)
        if transfer.is_message:
            return self._latency_s + num_bytes / self._bandwidth
        first = transfer.issues[0]
        return collective_seconds(first.op, len(first.group), num_bytes, self._latency_s, self._bandwidth)
