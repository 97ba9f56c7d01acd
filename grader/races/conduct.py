"""The turns of a race: who runs, how many calls, in what order. Everybody else sleeps meanwhile.

First the peer runs beside a twin of itself, before anything of the submission has been imported: what that race shows is how much of a
difference means nothing here. Then the twin's place is the submission's. A turn: the keeper makes fresh inputs, the judge says "go",
the racer makes its calls and says "done", the keeper copies what the judge wants to look at; between "go" and that copy the clock runs.
What a window costs beside its calls is learnt from the peer, by windows of fewer calls.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from grader.races.crew import Crew
from grader.races.seats import Fallen
from grader.races.windows import ALONE, HAND_OVER, PEER, SUBMISSION, TOGETHER, TWIN, Look, Peaks, Window

NUM_LOOKS = 4  # calls of a window that are looked at
NUM_WARM = 2  # windows that count for nothing: kernels are compiled, clocks rise
SMALLER = 4  # a small window has so many times fewer calls
SEED_RANGE = 2**40


@dataclass(frozen=True, slots=True)
class Plan:
    """How long is raced."""

    window_s: float = 0.05  # wanted for the peer's large windows, if memory holds so many calls
    rounds_alone: int = 15
    rounds: int = 25
    limit_s: float = 90.0  # for the rounds of a phase: the slow get fewer
    least_rounds: int = 8
    window_limit_s: float = 20.0  # for one window; a hang
    start_s: float = 180.0  # for what happens once: importing, making a context, compiling kernels


def wall_ns(pid: int) -> int:
    """The judge's own clock: a device works for a process without its CPU clock's knowing."""
    return time.perf_counter_ns()


def cpu_ns(pid: int) -> int:
    """What a process has used of the CPU, all its threads, read from outside: where the host plays the device, and others use it too."""
    return time.clock_gettime_ns(~pid << 3 | 2)  # clock_getcpuclockid(3)


@dataclass(slots=True)
class Conductor:
    """A race, from crews that nobody has spoken to, to windows. Fallen is raised by who `speaks`; what was measured until then is kept."""

    crews: dict[str, Crew]  # by windows.RANKS
    plan: Plan
    lot: random.Random  # secret until each "go"
    told: Callable[[str], None] = lambda phase: None  # a phase begins
    clock_ns: Callable[[int], int] = wall_ns  # of the racer with that pid
    windows: list[Window] = field(default_factory=list)
    peaks: Peaks | None = None
    speaks: str = ""  # whose word is waited for
    has_let_in: bool = False  # the submission
    _num_turns: int = 0
    _num_slots: int = 0

    def run(self) -> None:
        """Peer and twin, then peer and submission."""
        memory = self._set_up()
        calls = self._calibrate()
        self._rounds(ALONE, TWIN, calls, self.plan.rounds_alone)
        self.crews[TWIN].answer({})
        self.crews[TWIN].thaw()
        self.has_let_in = True
        self._admit(SUBMISSION, memory, 2)
        self._rounds(TOGETHER, SUBMISSION, calls, self.plan.rounds)

    def _set_up(self) -> list[list[object]]:
        """-> what each keeper has told of its memory."""
        self.speaks, keeper = "keeper", self.crews["keeper"]
        keeper.open(self.plan.start_s)
        told = keeper.hear("ready", self.plan.start_s)
        self._num_slots, memory = min(word.slots for word in told), [word.memory for word in told]
        if self._num_slots < SMALLER:
            raise Fallen(f"has memory for {self._num_slots} calls at a time; a race needs {SMALLER}")
        keeper.answer({"do": "peaks"})
        seen = keeper.hear("peaks", self.plan.start_s)
        fastest = {name: max(getattr(word, name) for word in seen) for name in ("bytes_per_s", "flops_per_s", "link_bytes_per_s")}
        self.peaks = Peaks(moved_bytes=seen[0].moved_bytes, flops=seen[0].flops, sent_bytes=seen[0].sent_bytes, **fastest)
        self._admit(PEER, memory, 0)
        self._admit(TWIN, memory, 1)
        return memory

    def _admit(self, name: str, memory: list[list[object]], lane: int) -> None:
        self.speaks, crew = name, self.crews[name]
        crew.open(self.plan.start_s)
        crew.hear("ready", self.plan.start_s)
        crew.answer(*({"memory": lanes[lane]} for lanes in memory))
        crew.hear("prepared", self.plan.start_s)
        crew.freeze()

    def _calibrate(self) -> tuple[int, int]:
        """How many calls a large and a small window have."""
        calls = 1
        for _ in range(NUM_WARM):
            elapsed_s = self._window(ALONE, PEER, "", calls, self.plan.start_s).elapsed_s
        while calls < SMALLER or (elapsed_s < self.plan.window_s and calls < self._num_slots):
            calls = min(self._num_slots, max(calls + 1, min(4 * calls, int(1.1 * calls * self.plan.window_s / elapsed_s))))
            elapsed_s = self._window(ALONE, PEER, "", calls, self.plan.start_s).elapsed_s
        return calls, max(1, calls // SMALLER)

    def _rounds(self, phase: str, rival: str, calls: tuple[int, int], num_rounds: int) -> None:
        """Every round has a large and a small window of each, and one that only hands over, in an order drawn by lot."""
        turns = [(PEER, "", n) for n in calls] + [(rival, "", n) for n in calls] + [(PEER, HAND_OVER, n) for n in calls]
        for lane, entrant, num_calls in turns * NUM_WARM:
            self._window(phase, lane, entrant, num_calls, self.plan.start_s)
        self.told(phase)
        until = time.monotonic() + self.plan.limit_s
        for number in range(num_rounds):
            if number >= self.plan.least_rounds and time.monotonic() > until:
                break
            self._num_turns += 1
            self.lot.shuffle(turns)
            for lane, entrant, num_calls in turns:
                self.windows.append(self._window(phase, lane, entrant, num_calls, self.plan.window_limit_s))

    def _window(self, phase: str, lane: str, entrant: str, num_calls: int, limit_s: float) -> Window:
        keeper, racer = self.crews["keeper"], self.crews[lane]
        order = self.lot.sample(range(num_calls), num_calls)
        self.speaks = "keeper"
        fresh = {"lane": int(lane != PEER), "calls": num_calls, "looks": NUM_LOOKS, "seed": self.lot.randrange(SEED_RANGE)}
        keeper.answer({"do": "fill", **fresh})
        keeper.hear("filled", self.plan.start_s)
        self.speaks = lane
        racer.require_silence()
        began_ns = [self.clock_ns(pid) for pid in racer.pids]
        racer.thaw()
        racer.answer({"entrant": entrant, "order": order})
        done = racer.hear("done", limit_s)
        racer.freeze()
        self.speaks = "keeper"
        keeper.answer({"do": "look"})
        keeper.hear("taken", self.plan.start_s)
        elapsed_s = max(self.clock_ns(pid) - before_ns for pid, before_ns in zip(racer.pids, began_ns, strict=True)) / 1e9
        keeper.answer({"compare": not entrant})  # what a hand-over leaves is nobody's answer
        seen = keeper.hear("seen", self.plan.start_s)
        testified_s = max(word.testified_s if word.testified_s is not None else float("nan") for word in done)
        looks = () if entrant else tuple(
            Look(slot, name if len(seen) == 1 else f"{name} on rank {rank}", error, plain)
            for rank, word in enumerate(seen) for slot, name, error, plain in word.errors
        )  # fmt: skip
        return Window(phase, lane, entrant, self._num_turns, num_calls, elapsed_s, testified_s, looks)
