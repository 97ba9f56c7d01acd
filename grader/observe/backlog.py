"""Runs that take seconds each, several at a time: what the tests ask for is noted first, then run, then judged.

Starting CUDA and a communicator takes two seconds, nearly all of it waiting; the judge's tests ask for one observation after another.
So a pass of the judge only notes what is missing (`NotRunYet` leaves the case not judged), `run` runs all of it, and the next pass
goes on from there. The pass in which nothing is missing is the judgement.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from contextlib import contextmanager
from dataclasses import dataclass, field

from grader.devices import Gpu
from grader.errors import MachineError, NotJudged, NotOnThisProfile
from grader.observe.live import Runs
from grader.records import BY_CLOCK, Assignment, Outcome, Request, Submission

STALLS = BY_CLOCK | {"deadlock"}  # faults that cost seconds each time they are met
TOLD_EVERY = 10  # observations
Told = Callable[[str], None]


class NotRunYet(NotJudged):
    """Noted; it will be run before the next pass."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """A request that a test has asked for and nobody has run."""

    assignment: Assignment
    submission: Submission
    request: Request
    test: str


class Places:
    """Who may be on which GPU: at most `ranks_at_once` ranks in all, a lone rank where there are fewest."""

    def __init__(self, gpus: tuple[Gpu, ...], ranks_at_once: int) -> None:
        self._gpus, self._free = gpus, max(ranks_at_once, len(gpus), 1)
        self._busy: Counter[str] = Counter()
        self._changed = threading.Condition()

    @contextmanager
    def taken(self, world_size: int) -> Iterator[tuple[str, ...]]:
        """Wait for room; -> the GPUs, one for each rank."""
        with self._changed:
            self._changed.wait_for(lambda: self._free >= world_size)
            quiet = sorted(self._gpus, key=lambda gpu: self._busy[gpu.uuid]) if world_size == 1 else list(self._gpus)
            chosen = tuple(gpu.uuid for gpu in quiet[:world_size])
            self._free -= world_size
            self._busy.update(chosen)
        try:
            yield chosen
        finally:
            with self._changed:
                self._free += world_size
                self._busy.subtract(chosen)
                self._changed.notify_all()


@dataclass(slots=True)
class Backlog:
    """Answers requests as `Runs` does, but never starts a rank before `run`."""

    runs: Runs
    gpus: tuple[Gpu, ...]
    ranks_at_once: int
    told: Told = lambda sentence: None
    wanted: dict[str, Wanted] = field(default_factory=dict)  # by key, in the order in which they were asked for
    _known: dict[str, Outcome | MachineError] = field(default_factory=dict)  # of this judgement
    _stalled: set[str] = field(default_factory=set)  # tests that have met a time-out: their other cases would cost minutes

    def outcome(self, assignment: Assignment, submission: Submission, request: Request, key: str, test: str) -> Outcome:
        """What the request shows, if that is known; else it is noted, and NotRunYet raised."""
        known = self._known.get(key)
        if isinstance(known, MachineError):
            raise known
        if known is None and self.runs.replay:
            return self.runs.outcome(assignment, submission, request, key)
        if known is None:
            known = self.runs.stored(key)
        if known is None and test in self._stalled:
            raise NotOnThisProfile("this test has already met a time-out there")
        if known is None:
            self.wanted.setdefault(key, Wanted(assignment, submission, request, test))
            raise NotRunYet(key)
        return known

    def run(self) -> int:
        """Run everything that is wanted -> how many that was. The store is written by the calling thread alone."""
        wanted, self.wanted = self.wanted, {}
        for flavour in {each.request.flavour for each in wanted.values()}:
            self.runs.ready(flavour)
        places = Places(self.gpus, self.ranks_at_once)
        pool = ThreadPoolExecutor(max(1, self.ranks_at_once), "observations")
        try:
            running = {pool.submit(self._run_one, key, each, places): key for key, each in wanted.items()}
            for number, future in enumerate(as_completed(running), 1):
                self._keep(running[future], wanted[running[future]], future)
                if number % TOLD_EVERY == 0 or number == len(wanted):
                    self.told(f"{number} of {len(wanted)} observations on GPUs")
        finally:  # after Ctrl-C nobody waits: what still runs ends with `runs`
            pool.shutdown(wait=False, cancel_futures=True)
        return len(wanted)

    def _run_one(self, key: str, wanted: Wanted, places: Places) -> Outcome | None:
        with places.taken(wanted.request.world_size) as gpus:
            if wanted.test in self._stalled:
                return None
            outcome = self.runs.fresh(wanted.assignment, wanted.submission, wanted.request, key, gpus)
        if outcome.fault is not None and outcome.fault.kind in STALLS:
            self._stalled.add(wanted.test)
        return outcome

    def _keep(self, key: str, wanted: Wanted, future: Future[Outcome | None]) -> None:
        try:
            outcome = future.result()
        except MachineError as fault:
            self._known[key] = fault
            return
        if outcome is not None:
            self._known[key] = outcome
            self.runs.store.put(key, wanted.submission.hash, wanted.request, outcome)
