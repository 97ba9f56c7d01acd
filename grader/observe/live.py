"""Runs: a request in, an outcome out. The only module that puts ranks, wire and store together."""

from __future__ import annotations

import compileall
import contextlib
import os
import platform
import py_compile
import shutil
import sys
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from importlib import metadata
from pathlib import Path

from grader.course import probe_files
from grader.errors import MachineError
from grader.exits import LATEST
from grader.frames import Bytes
from grader.levels import LEVELS
from grader.observe.endless import Endless
from grader.ranks.access import let_ranks_in
from grader.ranks.isolation import NOT_RUN, label
from grader.ranks.launch import Launch
from grader.ranks.zygote import Zygote
from grader.records import BY_CLOCK, Assignment, Fault, Json, Outcome, RankOutcome, Request, Spent, Submission, canonical, digest
from grader.store import Store
from grader.wire.broker import Broker
from grader.wire.endpoint import Endpoint
from grader.wire.loopback import fault_of_traffic, is_without_network

GRADER = Path(__file__).parents[1]


@dataclass(slots=True)
class Runs:
    """Answers requests: from the store where it can, from fresh ranks where it may.

    root    the course: probes and the grader's own `lm` are found there
    replay  the store only; a request that it lacks is a MachineError
    at_most the strongest level of isolation that is wanted; at D ranks have no walls, and marks are formative
    told    the run folder that messages name; None: where the store lies
    """

    root: Path
    store: Store
    replay: bool = False
    at_most: str = LEVELS[0]
    told: Path | None = None
    spent: Spent = field(default_factory=Spent)  # by all who ask
    _zygotes: dict[str, Zygote] = field(default_factory=dict)
    _environment: str = ""
    _is_closed: bool = False
    _label: str = ""  # what isolation() says once the processes are gone
    _mine: threading.RLock = field(default_factory=threading.RLock)  # two threads may ask: the judge's and the one that looks ahead
    _compiled: set[str] = field(default_factory=set)
    _endless: Endless = field(default_factory=Endless)
    _under_way: dict[str, threading.Lock] = field(default_factory=dict)  # by key: equal requests share one run

    def prepare(self, flavour: str = "torch") -> None:
        """Begin importing torch in the background."""
        with self._mine:
            if self._is_closed:
                raise MachineError("every process has been ended: nothing more is run")
            if not self.replay and flavour not in self._zygotes:
                let_ranks_in(self.store.path.parent)
                at_most = self.at_most if flavour != "cuda" else LEVELS[-1]  # a driver and NCCL reach for what walls deny
                self._zygotes[flavour] = Zygote(flavour, at_most, [self.root / "tests" / "probes", self.store.path.parent])

    def key(self, submission: Submission, request: Request, *more: str | bytes) -> str:
        """What decides an outcome, hashed: submission, probe, case, inputs, what comes back, the code, versions, walls, and `more`."""
        self._environment = self._environment or environment_hash(self.root)
        probes = digest(*(path.read_bytes() for path in probe_files(self.root, request.assignment)))
        *stronger, weakest = [digest(submission.hash, probes, self._environment, canonical(request.header()), level, *more)
                              for level in self._levels(request)]  # fmt: skip
        return next((key for key in stronger if self.store.holds(key)), weakest)

    @property
    def _has_walls(self) -> bool:
        return self.at_most != LEVELS[-1]

    def _levels(self, request: Request) -> Sequence[str]:
        """The level of isolation that is witnessed for such a request; a replay takes what was run at any of them."""
        if self.replay or self._is_closed:
            return LEVELS
        if not self._has_walls or request.device == "cuda":
            return LEVELS[-1:]
        self.prepare(request.flavour)
        return [self._zygotes[request.flavour].level()]

    def outcome(self, assignment: Assignment, submission: Submission, request: Request, key: str) -> Outcome:
        """What the request shows; MachineError when replaying and it isn't stored."""
        with self._mine:
            turn = self._under_way.setdefault(key, threading.Lock())
        with turn:
            return self._outcome(assignment, submission, request, key)

    def _outcome(self, assignment: Assignment, submission: Submission, request: Request, key: str) -> Outcome:
        stored = self.stored(key)
        if stored is not None:
            return stored
        if self.replay:
            raise MachineError(f"{request.probe} {request.parameters} at {request.world_size} ranks isn't in {self.store.path}: "
                               "submission, probe, inputs or grader changed since it was run; grade again without --replay")  # fmt: skip
        outcome = self.fresh(assignment, submission, request, key)
        self.store.put(key, submission.hash, request, outcome)
        return outcome

    def stored(self, key: str) -> Outcome | None:
        """What was observed under `key`, unless a clock decided it and it can be looked at again."""
        stored = self.store.outcome(key)
        return stored if stored is not None and (self.replay or stored.fault is None or stored.fault.kind not in BY_CLOCK) else None

    def ready(self, flavour: str) -> None:
        """Return once ranks of that flavour can be forked."""
        self.prepare(flavour)
        self._zygotes[flavour].wait_ready()

    def debug_command(self, key: str) -> str:
        """The command that runs an observation again with one of its ranks in a student's hands."""
        return debug_command(key, self.told or self.store.path.parent)

    def launch(self, flavour: str, openings: Sequence[tuple[Json, list[Bytes]]]) -> Launch:
        """Ranks that somebody else leads than the wire's broker; whoever asks ends them."""
        self.ready(flavour)
        return self._zygotes[flavour].launch([({**order, "walls": self._has_walls}, parts) for order, parts in openings])

    def isolation(self) -> str:
        """What the walls were seen to deny; of a replay, what they denied when it was run."""
        if self._label:
            return self._label
        note = self.store.path.with_name("isolation.txt")
        if seen := self.witnessed():
            note.write_text(told := label(seen if self._has_walls else [{"landlock": 0, "denied": {}}]), encoding="utf-8")
            return told
        return note.read_text(encoding="utf-8") if note.exists() else NOT_RUN

    def witnessed(self) -> list[Json]:
        """What the canary of each process that forks ranks has told: {"flavour", "landlock", "denied", "refused": {level: why not}}."""
        with self._mine:
            return [zygote.walls for zygote in self._zygotes.values() if zygote.walls]

    def close(self) -> None:
        """End every process, and with them whatever other threads still run."""
        self._label = self.isolation()
        self._is_closed = True
        for zygote in self._zygotes.values():
            zygote.close()
        self._zygotes.clear()

    def fresh(
        self, assignment: Assignment, submission: Submission, request: Request, key: str, gpus: Sequence[str] = ()
    ) -> Outcome:
        """What fresh ranks show, on `gpus` if the request wants a device each. Any thread may call it."""
        with self._mine:  # the given code is copied, and the probes compiled, by the first who needs it
            if known := self._endless.answer(submission.hash, request.world_size):
                return known
            self._compile(request.assignment)
            folder, debug = self.store.path.parent, self.debug_command(key)
            openings = openings_of(self.root, folder, assignment, submission, request, debug, gpus)
            for order, _ in openings:
                order["walls"] = self._has_walls
        for _ in range(2):
            self.prepare(request.flavour)
            zygote = self._zygotes[request.flavour]
            try:
                outcome = run_once(zygote, request, openings)
                self._count(submission, outcome)
                break
            except MachineError:
                if self._is_closed:
                    raise
                # The zygote or the supervisor died. Once may be the machine; twice on one request is the submission's doing.
                self._replace_dead(zygote)
                self._zygotes[request.flavour].wait_ready()  # if this fails too, it is the machine's fault after all
        else:
            return killed_watcher(request)
        if is_without_network(request, outcome):
            raise MachineError("gloo's ranks can't reach each other here: the machine's loopback interface is not up. As root, "
                               "`ip link set lo up`; at isolation A ranks have one of their own.")  # fmt: skip
        return outcome

    def _count(self, submission: Submission, outcome: Outcome) -> None:
        with self._mine:
            self._endless.note(submission.hash, outcome)
            seen = self.spent
            importing_s = sum(zygote.waited_s for zygote in self._zygotes.values())
            ranks_cpu_s = seen.ranks_cpu_s + sum(rank.cpu_s for rank in outcome.ranks)
            self.spent = Spent(seen.num_runs + 1, seen.num_ranks + len(outcome.ranks), ranks_cpu_s, importing_s)

    def _compile(self, assignment: str) -> None:
        """Leave bytecode beside the probes, once: compiling takes 10 ms in every rank, and a grading may have a thousand."""
        if assignment not in self._compiled:
            for path in probe_files(self.root, assignment):
                with contextlib.suppress(OSError):  # a folder that can't be written is only slower
                    py_compile.compile(str(path), quiet=2)
            self._compiled.add(assignment)

    def _replace_dead(self, zygote: Zygote) -> None:
        with self._mine:
            if self._zygotes.get(zygote.flavour) is zygote and not zygote.alive(patience_s=0.5):
                self._zygotes.pop(zygote.flavour).close()
            self.prepare(zygote.flavour)


def killed_watcher(request: Request) -> Outcome:
    """What is known of a run that killed the zygote or the supervisor whenever it was tried."""
    sentence = "the processes that watch the ranks were killed, twice: nothing but the submission runs beside them"
    ranks = tuple(RankOutcome(rank, False, None) for rank in range(request.world_size))
    return Outcome(ranks, (), Fault("killed_watcher", -1, sentence))


def run_once(zygote: Zygote, request: Request, openings: Sequence[tuple[Json, list[Bytes]]]) -> Outcome:
    """Launch, broker, end; nothing is left afterwards, whatever happened."""
    launch = zygote.launch(openings)
    try:
        endpoints = [Endpoint(s.rank, s.pid, s.pipes.line, s.pipes.log, s.opening) for s in launch.started]
        outcome = Broker(request, endpoints, launch).run()
    finally:
        launch.end()
    outcome = replace(outcome, loopback_bytes=launch.loopback_bytes)
    return replace(outcome, fault=fault_of_traffic(outcome) or outcome.fault)


def openings_of(
    root: Path, run_folder: Path, assignment: Assignment, submission: Submission, request: Request, debug: str, gpus: Sequence[str] = ()
) -> list[tuple[Json, list[Bytes]]]:
    """The first frame of every rank: what to run, where, its own inputs, and the command that a breakpoint() is answered with."""
    given = given_code(root, run_folder)
    openings: list[tuple[Json, list[Bytes]]] = []
    for rank in range(request.world_size):
        inputs = {name: request.input_of(name, rank) for name in request.inputs}
        order = {
            "rank": rank, "world_size": request.world_size, "transport": request.network.transport, "seed": request.seed,
            "probe": request.probe, "parameters": request.parameters, "extra_bytes": request.limits.extra_bytes,
            "probes": str(probe_files(root, request.assignment)[0]), "submission": submission.folder,
            "files": [name for name in assignment.files if name in submission.files], "given": str(given),
            "inputs": [[name, tensor.dtype, list(tensor.shape)] for name, tensor in inputs.items()],
            "debug": debug, "device": request.device, "gpus": list(gpus),
            "flavour": request.flavour, "shares_folder": request.shares_folder,
        }  # fmt: skip
        openings.append((order, [tensor.data for tensor in inputs.values()]))
    return openings


def debug_command(key: str, run_folder: Path) -> str:
    """The command that runs an observation again with one of its ranks in your hands."""
    where = "" if run_folder.resolve() == LATEST.resolve() else f" --out {run_folder}"
    return f".venv/bin/grader debug {key[:12]}{where}"


def given_room(root: Path) -> Path:
    """Where the grader's own copy of `lm` is: beside the solutions, or in what students get beside the starter."""
    return next((path for room in ("solutions", "starter") if (path := root / room / "lm").is_dir()), root / "solutions" / "lm")


def given_code(root: Path, run_folder: Path) -> Path:
    """A folder with the grader's own copy of `lm`: beside it no solution could be imported, and a student's edits change nothing."""
    source = given_room(root)
    given = run_folder / f"given-{digest(*(path.read_bytes() for path in sorted(source.rglob('*.py'))))[:12]}"
    if not given.exists():
        partial = run_folder / f".given-{os.getpid()}"
        partial.mkdir(parents=True)
        if source.exists():
            shutil.copytree(source, partial / "lm", ignore=shutil.ignore_patterns("__pycache__"))
            compileall.compile_dir(partial, quiet=2)  # once for all ranks, which write no bytecode
        try:
            partial.rename(given)
        except OSError:  # another grading with the same run folder was first
            if not given.exists():
                raise
            shutil.rmtree(partial)
    return given


def environment_hash(root: Path) -> str:
    """The code that runs beside and around a submission, and the versions it runs on."""
    rooms = [*(GRADER / room for room in ("worker", "wire", "ranks", "observe")), given_room(root)]
    sources = sorted(path for room in rooms for path in room.rglob("*.py"))
    versions = [f"{name} {_version(name)}" for name in ("torch", "triton", "numpy")]
    sources += [GRADER / f"{name}.py" for name in ("records", "frames", "levels")]
    return digest(*(path.read_bytes() for path in sources), *versions, sys.version, platform.machine())


def _version(distribution: str) -> str:
    try:
        return metadata.version(distribution)
    except metadata.PackageNotFoundError:
        return "none"
