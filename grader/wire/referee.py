"""Who can never go on. Exact where the judge performs the operations, by idle CPU clocks where gloo does."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Literal, NamedTuple

from grader.records import Limits
from grader.wire.calls import MESSAGES, STORE, Call
from grader.wire.kernel import is_asleep_for_ever
from grader.wire.seat import Seat

IDLE_CPU_S = 0.02  # what a blocked rank's helper threads may use up while it counts as idle


class Need(NamedTuple):
    """Whose further action a call needs: all of these ranks, or any of them. `by_judge`: the judge itself holds the answer back."""

    how: Literal["all", "any"]
    ranks: list[int]
    by_judge: bool = False


def need_of(call: Call, world_size: int) -> Need:
    """What could still bring the answer of an unanswered call."""
    others = [rank for rank in range(world_size) if rank != call.rank]
    if call.op == "gate":
        return Need("any", others, by_judge=True)
    if call.op in STORE:
        return Need("any", others)
    operation = call.operation
    if operation is not None and operation.quarrel is not None:
        return Need("any", [])
    if operation is not None and operation.is_complete:
        return Need("any", others, by_judge=True)
    if call.op in MESSAGES:
        return Need("all", [call.peer]) if call.peer >= 0 else Need("any", [rank for rank in call.group.ranks if rank != call.rank])
    assert operation is not None  # every collective meets in one
    return Need("all", operation.missing())


def doomed(seats: Sequence[Seat]) -> list[Seat]:
    """The live ranks that wait for what only doomed or departed ranks could bring: a fixpoint, with no clock in it.

    A rank counts as free while it announces no wait, so the verdict also needs `are_asleep`: another of its threads may be at work.
    """
    waiting = {seat.rank: seat for seat in seats if seat.is_live and seat.waits and not seat.channel.is_sending}
    free = {seat.rank for seat in seats if seat.is_live and seat.rank not in waiting}
    while True:
        freed = {rank for rank, seat in waiting.items() if rank not in free and _may_go_on(seat, free, len(seats))}
        if not freed:
            return [seat for rank, seat in waiting.items() if rank not in free]
        free |= freed


def _may_go_on(seat: Seat, free: set[int], world_size: int) -> bool:
    for call in seat.waits.values():
        need = need_of(call, world_size)
        met = [rank in free for rank in need.ranks]
        if all(met) if need.how == "all" else any(met):
            return True
    return False


class Stillness:
    """Confirms that ranks sleep for ever; where the kernel doesn't tell, that their CPU clocks have stood still for `idle_s`."""

    def __init__(self, limits: Limits) -> None:
        self._idle_s = limits.idle_s
        self._since_s: dict[int, tuple[float, float]] = {}  # rank -> CPU clock, and when it was first seen at that

    def are_asleep(self, seats: Sequence[Seat]) -> bool:
        """Every thread of all `seats` sleeps in the kernel, and no timer will wake it."""
        answers = [is_asleep_for_ever(seat.pid) for seat in seats]
        if None in answers:
            return self.are_idle(seats)
        return all(answers)

    def are_idle(self, seats: Sequence[Seat]) -> bool:
        """None of `seats` has used CPU or said a word for `idle_s`."""
        now = time.monotonic()
        idle_s = []
        for seat in seats:
            seat.look()
            clock, since_s = self._since_s.get(seat.rank, (-1.0, now))
            if abs(seat.cpu_s - clock) > IDLE_CPU_S or seat.heard_s > since_s:
                clock, since_s = self._since_s[seat.rank] = (seat.cpu_s, now)
            idle_s.append(now - since_s)
        return bool(seats) and min(idle_s) >= self._idle_s
