"""Racers that are none: they take what they are told to take, on a clock that only they move."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

from grader.races.conduct import Conductor, Plan
from grader.races.seats import Fallen, Word
from grader.races.windows import HAND_OVER, PEER, SUBMISSION, TWIN

RIGHT = (1.6e-3, 2e-3)
FIXED_S, HAND_OVER_S, CALL_S = 2e-4, 1e-4, 1e-3
PLAN = Plan(window_s=0.05, rounds_alone=15, rounds=25)
Cost = Callable[[int], float]  # seconds that a window of so many calls takes the racer, handing over and its way aside


class Clock:
    """Nobody's but the puppets'."""

    def __init__(self) -> None:
        self.now_s = 0.0

    def __call__(self, pid: int) -> int:
        return round(self.now_s * 1e9)


class Puppet:
    """A crew of one whose process does not exist."""

    def __init__(self, stage: Stage, name: str) -> None:
        self._stage, self._name, self._told = stage, name, {}
        self.pids, self.log, self.is_frozen = [0], b"", False

    def open(self, deadline_s: float) -> None:
        self._stage.opened.append(self._name)

    def answer(self, word: Any) -> None:
        self._told = word

    def hear(self, say: str, deadline_s: float) -> list[Word]:
        if say == "done":
            self._stage.run_window(self._name, self._told, self.is_frozen)
        errors = self._stage.looks if say == "seen" else []
        return [Word(op="race", say=say, slots=64, memory=[[], [], []], errors=errors, testified_s=self._stage.testified_s,
                     bytes_per_s=1e12, flops_per_s=1e15, moved_bytes=1e8, flops=1e9)]  # fmt: skip

    def require_silence(self) -> None:
        assert self.is_frozen

    def freeze(self) -> None:
        self.is_frozen = True

    def thaw(self) -> None:
        self.is_frozen = False


class Stage:
    """A race of puppets. `noise` is the standard deviation of a window, relative; `error` the submission's in every call."""

    def __init__(self, submission: Cost | float = CALL_S, *, noise: float = 0.0, seed: int = 0, error: tuple[Any, Any] = RIGHT,
                 peer_beside_s: float = CALL_S, falls: str = "") -> None:  # fmt: skip
        self._costs: dict[str, Cost] = {PEER: self._per_call(CALL_S), TWIN: self._per_call(CALL_S)}
        self._costs[SUBMISSION] = submission if callable(submission) else self._per_call(submission)
        self._noise, self._lot, self._error, self._beside_s, self._falls = noise, random.Random(seed), error, peer_beside_s, falls
        self.clock, self.opened, self.looks = Clock(), [], []
        self.ran: list[tuple[str, list[str]]] = []  # whose window it was, and who was awake in it
        self.testified_s = 0.0
        self.seats = {name: Puppet(self, name) for name in ("keeper", PEER, TWIN, SUBMISSION)}
        self.conductor = Conductor(self.seats, PLAN, random.Random(seed + 1), clock_ns=self.clock)

    @staticmethod
    def _per_call(cost_s: float) -> Cost:
        return lambda calls: calls * cost_s

    def run_window(self, name: str, turn: Any, is_frozen: bool) -> None:
        """Let the clock go on by what this racer takes."""
        assert not is_frozen
        if self._falls == name and SUBMISSION in self.opened:
            raise Fallen("has ended")
        self.ran.append((name, [each for each, seat in self.seats.items() if each in self.opened[1:] and not seat.is_frozen]))
        calls = len(turn["order"])
        own_s = 0.0 if turn["entrant"] == HAND_OVER else self._costs[name](calls)
        if name == PEER and SUBMISSION in self.opened and turn["entrant"] != HAND_OVER:
            own_s = calls * self._beside_s
        spent_s = (FIXED_S + calls * HAND_OVER_S + own_s) * self._lot.gauss(1.0, self._noise)
        self.clock.now_s += spent_s
        self.testified_s = spent_s - FIXED_S
        self.looks = [(0, "y", self._error if name == SUBMISSION else RIGHT, RIGHT)]
