"""When a run is over, and whose fault it was: the first trouble gets a short grace, so that what follows from it is told too."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace

from grader.records import Fault, Limits, Request
from grader.wire.desk import Desk
from grader.wire.endpoint import Supervision
from grader.wire.faults import fault_of_cpu, fault_of_deadlock, fault_of_quarrel, fault_of_silence, lines_of
from grader.wire.referee import Stillness, doomed
from grader.wire.seat import Seat
from grader.wire.testimony import fault_of_hang, fault_of_recorded_quarrel, is_consequence

IDLE_CPU_FRACTION = 0.05  # a rank that computes on a crowded machine gets more of a core than this; one that polls and sleeps doesn't
PATIENCE = 8  # times wall_s: the end also for one that dribbles along


class Umpire:
    """Decides. `verdict` is set once, and ends the run."""

    def __init__(self, request: Request, seats: Sequence[Seat], desk: Desk, supervision: Supervision, submission_folder: str) -> None:
        self._request, self._seats, self._desk, self._supervision, self._folder = request, seats, desk, supervision, submission_folder
        self._stillness = Stillness(request.limits)
        self._trouble_since_s: float | None = None
        self.verdict: Fault | None = None

    def settle(self, is_there_news: Callable[[], bool]) -> None:
        """Nothing is there to be read: open gates, and see whether somebody is lost for good."""
        self._desk.reconsider()
        if self._desk.changed_in_flight is not None:
            self.verdict = self._desk.changed_in_flight
            return
        stuck = doomed(self._seats)
        has_fault = bool(self._desk.falls or self._desk.matching.quarrels)
        if not (stuck or has_fault):
            self._trouble_since_s = None
            return
        if any(not seat.is_live and not seat.has_answered and seat.fall is None for seat in self._seats):
            return  # somebody has left and nobody has said how
        now_s = time.monotonic()
        self._trouble_since_s = self._trouble_since_s or now_s
        is_grace_over = now_s - self._trouble_since_s > self._request.limits.grace_s
        is_all_stuck = len(stuck) == sum(seat.is_live for seat in self._seats)
        is_certain = has_fault and is_grace_over
        if stuck and (is_all_stuck or is_grace_over) and not is_certain:
            is_certain = self._stillness.are_asleep(stuck) and not is_there_news()
        if is_certain:
            self.verdict = self._blame() or fault_of_deadlock(stuck, self._seats, self._desk.policy)

    def look(self) -> None:
        """Ranks that say nothing: do they burn CPU, sleep for no reason, or hang in gloo?"""
        limits, now_s = self._request.limits, time.monotonic()
        live = [seat for seat in self._seats if seat.is_live]
        is_on_gpu = self._request.network.transport == "nccl"
        for seat in live:
            used_s = seat.look()
            if is_on_gpu and seat.open_calls:
                continue  # whoever waits for a device may spin: only the silence of all of them tells
            if used_s > limits.cpu_s:
                self._desk.fell(seat, fault_of_cpu(seat, limits, self._supervision.stack(seat.rank), self._folder))
            elif not seat.waits and not seat.open_calls and _is_silent(seat, now_s - seat.heard_s, limits):
                self._desk.fell(seat, fault_of_silence(seat, limits, self._supervision.stack(seat.rank), self._folder))
        are_all_in_calls = any(seat.open_calls for seat in live) and all(seat.open_calls or seat.waits for seat in live)
        are_still = now_s - max((seat.heard_s for seat in live), default=now_s) >= limits.idle_s if is_on_gpu else None
        if are_all_in_calls and (self._stillness.are_idle(live) if are_still is None else are_still) and self.verdict is None:
            self.verdict = self._blame() or fault_of_hang(live, limits, is_on_gpu)

    def final_fault(self) -> Fault | None:
        """The run's fault, also when all ranks have gone by themselves."""
        return self.verdict or self._blame()

    def _blame(self) -> Fault | None:
        """The fault that explains the others: a rank that fell, else calls that don't belong together."""
        quarrels = self._desk.matching.quarrels
        # Over the wire no rank falls because of another, so the lowest is named whoever was first.
        falls = sorted(self._desk.falls, key=lambda fault: fault.rank)
        if self._request.network.transport in ("gloo", "nccl"):  # there, a rank that goes takes the others with it, and a quarrel aborts
            falls = sorted(falls, key=is_consequence)
            quarrel = fault_of_recorded_quarrel([seat.trace for seat in self._seats])
            if quarrel is not None and (not falls or is_consequence(falls[0]) or falls[0].kind == "crashed"):
                return quarrel
        if falls:
            return replace(
                falls[0], sentence=falls[0].sentence + self._who_had_ended(falls[0]), lines=lines_of(self._seats, self._desk.policy)
            )
        if quarrels:
            return fault_of_quarrel(quarrels[0])
        return None

    def _who_had_ended(self, fault: Fault) -> str:
        """Of a rank that lost its peer, and no other fell: whose probe had returned before the others were done."""
        ended = [f"rank {seat.rank}" for seat in self._seats if seat.has_answered]
        return f"; the probe of {' and '.join(ended)} had ended" if ended and is_consequence(fault) else ""


def _is_silent(seat: Seat, quiet_s: float, limits: Limits) -> bool:
    """Whether a rank rests: a busy one runs to its CPU limit instead, however long a crowded machine makes that take."""
    used_s = seat.cpu_s - seat.cpu_at_word_s
    return quiet_s > limits.wall_s and (used_s < IDLE_CPU_FRACTION * quiet_s or quiet_s > PATIENCE * limits.wall_s)
