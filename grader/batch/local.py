"""Works carried out by processes of this machine. A process that dies or is stuck is replaced, and its work tried again in the new one."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import shutil
import signal
import socket
import threading
import time
from collections import deque
from collections.abc import Generator, Iterable
from dataclasses import dataclass, replace
from multiprocessing.connection import Connection, wait
from pathlib import Path

from grader.batch.work import Ended, Job, Work, carry_out
from grader.exits import LATEST
from grader.pipeline import opened_runs

NUM_ATTEMPTS = 3
NUM_GRADINGS_PER_PROCESS = 50  # pytest and the judge keep a little of every session: a new process begins with nothing
PATIENCE_S = 20.0  # for a process that was asked to end
SPAWN = multiprocessing.get_context("spawn")


@dataclass(frozen=True, slots=True)
class LocalCrew:
    """`num_hands` processes, each with a torch of its own that it imports once."""

    job: Job
    num_hands: int
    limit_s: float  # a grading that takes longer is taken for stuck
    num_attempts: int = NUM_ATTEMPTS

    def carry_out(self, works: Iterable[Work]) -> Generator[Ended]:
        """How each work ended, as it ends. Closing the generator ends the processes."""
        waiting = deque((work, 1) for work in works)
        hands: list[Hand] = []
        try:
            while waiting or any(hand.work for hand in hands):
                hands = [hand for hand in hands if hand.is_fit()]
                for hand in hands:
                    if hand.work is None and waiting:
                        hand.begin(*waiting.popleft())
                while waiting and len(hands) < self.num_hands:
                    hands.append(Hand(self.job))
                    hands[-1].begin(*waiting.popleft())
                for hand in _ready(hands, self.limit_s):
                    work, ended = hand.take(self.limit_s)
                    if ended.state == "machine":
                        hand.kill()  # the next try is in a process that knows nothing of this one
                    if ended.state == "machine" and not ended.is_course and ended.attempts < self.num_attempts:
                        waiting.append((work, ended.attempts + 1))
                    else:
                        yield ended
            for hand in hands:
                hand.end()
        finally:
            for hand in hands:
                hand.kill()


class Hand:
    """A process that grades one submission after the other."""

    def __init__(self, job: Job) -> None:
        self._out = Path(job.out)
        self._line, its = SPAWN.Pipe()
        self._process = SPAWN.Process(target=_serve, args=(job, its), daemon=True)
        self._process.start()
        its.close()
        self.work: Work | None = None
        self._attempt, self._num_begun, self._begun_s = 1, 0, 0.0

    @property
    def line(self) -> Connection:
        """Readable when the work has ended, or the process has."""
        return self._line

    def begin(self, work: Work, attempt: int) -> None:
        """Hand it a work; the hand must be idle."""
        self.work, self._attempt, self._num_begun, self._begun_s = work, attempt, self._num_begun + 1, time.monotonic()
        with contextlib.suppress(OSError):  # it has died: so says the line's end
            self._line.send(work)

    def late_s(self, limit_s: float) -> float:
        """Seconds beyond the limit; below zero: what is left."""
        return time.monotonic() - self._begun_s - limit_s

    def take(self, limit_s: float) -> tuple[Work, Ended]:
        """The work and how it ended: also if the process has died over it, or is taking too long."""
        work, self.work = self.work, None
        assert work is not None
        try:
            ended = self._line.recv() if self._line.poll() else Ended(work.key, "machine", f"not graded within {limit_s / 60:.0f} minutes")
        except (EOFError, OSError):
            self._process.join(PATIENCE_S)
            status = self._process.exitcode
            how = signal.Signals(-status).name if status is not None and status < 0 else f"exit code {status}"
            ended = Ended(work.key, "machine", f"the process that graded it died ({how})")
        return work, replace(ended, attempts=self._attempt, host=this_node())

    def is_fit(self) -> bool:
        """Whether it can be given another work; one that has done its share is ended."""
        if self.work is None and self._num_begun >= NUM_GRADINGS_PER_PROCESS:
            self.end()
        return self._process.is_alive() or self.work is not None

    def end(self) -> None:
        """Let it finish tidily."""
        self._line.close()
        self._process.join(PATIENCE_S)
        self.kill()

    def kill(self) -> None:
        """End it at once, with all that it started, and wait until it is gone."""
        self._process.kill()
        self._process.join()
        self._line.close()
        shutil.rmtree(self._out / f"graded-{self._process.pid}", ignore_errors=True)


def this_node() -> str:
    """This machine as Slurm calls it, which need not be how it calls itself; outside Slurm, as it calls itself."""
    return os.environ.get("SLURMD_NODENAME") or socket.gethostname()


def _ready(hands: list[Hand], limit_s: float) -> list[Hand]:
    """Busy hands that have something to say or have taken too long; waits until there is one."""
    busy = [hand for hand in hands if hand.work]
    least_s = min((-hand.late_s(limit_s) for hand in busy), default=0.0)
    spoken = wait([hand.line for hand in busy], timeout=max(0.0, least_s)) if busy else []
    return [hand for hand in busy if hand.line in spoken or hand.late_s(limit_s) >= 0]


# --- in the process --------------------------------------------------------------------------------------------------
def _serve(job: Job, line: Connection) -> None:
    """Grade what comes over `line` until it ends."""
    for warning in (signal.SIGINT, signal.SIGTERM, signal.SIGUSR2):  # a terminal or Slurm warns all: whoever began this process ends it
        signal.signal(warning, lambda *_: None)  # not SIG_IGN, which ranks would inherit
    threading.Thread(target=_end_with_parent, daemon=True).start()
    course, assignments = job.course()
    out = Path(job.out) if job.shares_store else None
    # Reports are read by students, whose own course has another run folder than this one.
    with opened_runs(course.root, out, told=LATEST, forgets=False) as runs, contextlib.suppress(EOFError):
        while True:
            line.send(carry_out(job, course, assignments, line.recv(), runs))


def _end_with_parent() -> None:
    """Whoever reads what is graded here is gone: end at once, and the ranks with this process."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)
