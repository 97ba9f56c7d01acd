"""`grader debug KEY`: a stored observation is a whole request, so it can be run again with one of its ranks in your hands.

The foreground process becomes that rank: same probe, same inputs, your files as they are now; `breakpoint()`, Ctrl-C and an IDE work
as in any script. The other ranks and the judge's network run in a child, with no deadline; they pass every breakpoint() by.
"""

from __future__ import annotations

import json
import os
import socket
import sys
from dataclasses import replace
from pathlib import Path

from grader import devices
from grader.course import Course, select
from grader.errors import UsageError
from grader.frames import Bytes
from grader.observe.live import openings_of
from grader.ranks.launch import Launch
from grader.ranks.zygote import ROOT, Zygote
from grader.records import Json, Limits, Request, Submission, make_grade
from grader.store import Store
from grader.wire.broker import Broker
from grader.wire.endpoint import Endpoint

NEVER_S = 1e9


class WithYou:
    """The supervisor's word, plus the one rank that no supervisor watches: the process in the terminal."""

    def __init__(self, launch: Launch | None, rank: int) -> None:
        self._launch, self._rank = launch, rank
        self._silent, self._held = os.pipe()  # never readable: what to select on when every other rank is yours

    def fileno(self) -> int:
        return self._launch.fileno() if self._launch else self._silent

    def exits(self) -> list[tuple[int, int]]:
        return self._launch.exits() if self._launch else []

    def stack(self, rank: int) -> str:
        return self._launch.stack(rank) if self._launch and rank != self._rank else ""


def debug(course: Course, out: Path, key: str, origin: Path | None, rank: int = 0) -> int:
    """Run the observation `key` of the run folder `out` again, with this process as `rank`. Does not return: it becomes the rank.

    origin  the folder whose files run; None: the one that was graded into `out`
    """
    origin = origin or _graded_into(out)
    found = Store(out / "store.sqlite").request(key)
    if found is None:
        raise UsageError(
            f"no single observation in {out} has a key that begins with {key!r}; a failure prints the key, and `--out` names another run"
        )
    _, request = found
    if not 0 <= rank < request.world_size:
        raise UsageError(f"this observation has ranks 0 to {request.world_size - 1}, not {rank}: choose one with --rank")
    gpus = [gpu.uuid for gpu in devices.found()] if request.device == "cuda" else []
    if request.device == "cuda" and len(gpus) < request.world_size:
        raise UsageError(
            f"this observation was made on GPUs, one for each rank: {request.world_size} are needed, {len(gpus)} are here. "
            "Debug it where they are, or a failure of the CPU's, which has a key of its own."
        )
    assignment = select(course, [request.assignment])[0]
    submission = Submission(str(origin.resolve()), str(origin), {name: "" for name in assignment.files if (origin / name).exists()})
    mine, its = socket.socketpair()
    me = os.getpid()
    if os.fork() == 0:
        mine.close()
        patient = replace(request, limits=Limits(cpu_s=NEVER_S, wall_s=NEVER_S, idle_s=NEVER_S, grace_s=NEVER_S))
        openings = openings_of(course.root, out, assignment, submission, patient, "", gpus[: request.world_size])
        _be_the_judge(patient, openings, rank, its, me, make_grade(assignment.name, str(origin)))
    its.close()
    print(
        f"You are rank {rank} of {request.world_size}: {request.probe}({_words(request)}). The others run beside you; nothing is judged.\n"
        f"{where_it_stops(submission)}",
        file=sys.stderr,
    )
    os.set_inheritable(mine.fileno(), True)
    os.environ["PYTHONPATH"] = os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
    os.environ["OMP_NUM_THREADS"] = "1"
    os.execv(sys.executable, [sys.executable, "-m", "grader.worker.debug", str(mine.fileno()), request.flavour])


def _graded_into(out: Path) -> Path:
    try:
        return Path(json.loads((out / "report.json").read_text())["origin"])
    except (OSError, ValueError, KeyError) as unreadable:
        raise UsageError(f"{out} has no report that says which folder was graded; name it with --submission") from unreadable


def where_it_stops(submission: Submission) -> str:
    """A sentence on where the debugger will stop, from the text of the submission's files."""
    texts = [(Path(submission.folder) / name).read_text(encoding="utf-8", errors="replace") for name in submission.files]
    if any("breakpoint()" in text for text in texts):
        return "It stops at your breakpoint(), in this rank alone; the others go on until they need you, and wait."
    return f"It stops nowhere: {' and '.join(submission.files)} has no breakpoint(). Put one where you want to look, and debug again."


def _words(request: Request) -> str:
    return ", ".join(f"{name}={value!r}" for name, value in request.parameters.items())


def _be_the_judge(request: Request, openings: list[tuple[Json, list[Bytes]]], rank: int, line: socket.socket, you: int, again: str) -> None:
    """In the child: the other ranks, and the network for all of them; ends when the terminal's rank ends. `again`: what grades."""
    status = 1
    try:
        os.setsid()  # Ctrl-C is yours alone
        others = [r for r in range(request.world_size) if r != rank]
        zygote = Zygote(request.flavour, "C") if others else None  # no network of their own: you are in the machine's
        try:
            launch = zygote.launch([openings[r] for r in others], others) if zygote else None
            started = {s.rank: Endpoint(s.rank, s.pid, s.pipes.line, s.pipes.log, s.opening) for s in launch.started} if launch else {}
            started[rank] = Endpoint(rank, you, line, -1, openings[rank])
            outcome = Broker(request, [started[r] for r in range(request.world_size)], WithYou(launch, rank)).run()
            if launch:
                launch.end()
            for other in outcome.ranks:
                if other.log.strip():
                    print(f"--- rank {other.rank} printed\n{other.log.rstrip()}", file=sys.stderr)
            answered = f"every rank answered; whether the answers have the right form and values, only grading says: {again}"
            print(f"--- {outcome.fault.sentence if outcome.fault else answered}", file=sys.stderr)
            status = 0
        finally:
            if zygote:
                zygote.close()
    finally:
        os._exit(status)
