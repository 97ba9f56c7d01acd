"""The judge's end of the zygote: start it, ask it for ranks, end it. No torch here."""

from __future__ import annotations

import array
import collections
import contextlib
import json
import os
import select
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from pathlib import Path

from grader.errors import MachineError
from grader.frames import Bytes, Words
from grader.levels import LEVELS, level_of
from grader.ranks.access import be_unreadable, lives
from grader.ranks.launch import Launch, Pipes
from grader.records import Json, KiB

ROOT = Path(__file__).parents[2]
START_DEADLINE_S = 120.0  # importing torch takes 2-4 s; a cold disk much more
FROM_OUTSIDE = (
    "PATH", "TMPDIR", "LANG", "LC_ALL", "TZ", "LD_LIBRARY_PATH", "VIRTUAL_ENV", "OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE",
    "CUDA_HOME", "TRITON_PTXAS_PATH", "TRITON_LIBCUDA_PATH", "CC", "CPATH", "C_INCLUDE_PATH", "LIBRARY_PATH",  # Triton compiles C too
)  # fmt: skip
ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")  # a fork copies no thread pools


class Zygote:
    """A clean process that has imported torch. Starting returns at once; `launch` waits until it is ready.

    at_most  the strongest level of isolation that is wanted
    needed   folders that ranks must be able to go through, whoever they are
    """

    def __init__(self, flavour: str = "torch", at_most: str = LEVELS[0], needed: Sequence[Path] = ()) -> None:
        sweep_leftovers()
        be_unreadable()
        self.flavour = flavour
        self.walls: Json = None  # what its canary was denied, once it has said so
        self.waited_s = 0.0  # how long somebody who wanted ranks waited for the import
        self._words: collections.deque[Json] = collections.deque()
        mine, its = socket.socketpair()
        self._line, self._hearing, self._ready, self._turn = mine, Words(mine), False, threading.Lock()
        self._session: Path | None = None
        self._complaints = tempfile.TemporaryFile()  # noqa: SIM115 - lives as long as the process that writes to it
        environment = {name: os.environ[name] for name in FROM_OUTSIDE if name in os.environ} | ONE_THREAD | {"PYTHONPATH": str(ROOT)}
        try:
            self._process = subprocess.Popen(
                [sys.executable, "-s", "-P", "-m", "grader.worker.zygote", str(its.fileno()), flavour, at_most, *map(str, needed)],
                pass_fds=[its.fileno()], env=environment, stdin=subprocess.DEVNULL, stdout=self._complaints, stderr=self._complaints,
                start_new_session=True)  # fmt: skip
        except OSError as refused:
            raise MachineError(f"the machine refuses to start a process: {refused}") from refused
        finally:
            its.close()

    def alive(self, patience_s: float = 0.0) -> bool:
        """Whether the process still runs; one that has just been killed may take a moment to be gone."""
        try:
            self._process.wait(patience_s)
        except subprocess.TimeoutExpired:
            return True
        return False

    def wait_ready(self) -> None:
        """Return once torch is imported; MachineError with the process's own words if that fails."""
        with self._turn:
            self._wait_ready()

    def _wait_ready(self) -> None:
        if self._ready:
            return
        began_s = time.monotonic()
        self._hear_walls()
        word = self._next_word()
        self.waited_s = time.monotonic() - began_s
        self._session, self._ready = Path(word["session"]), True

    def level(self) -> str:
        """The level of isolation that a canary has witnessed; known before torch is imported. Raises MachineError."""
        with self._turn:
            self._hear_walls()
        return level_of(self.walls)

    def _hear_walls(self) -> None:
        if self.walls is None:
            self.walls = {"flavour": self.flavour, **self._next_word()["walls"]}

    def _next_word(self) -> Json:
        while not self._words:
            try:
                readable, _, _ = select.select([self._line], [], [], START_DEADLINE_S)
                if not readable:
                    raise EOFError
                self._words.extend(self._hearing.hear())
            except (EOFError, OSError):
                raise MachineError(
                    f"the process that forks ranks did not start: {self._last_words() or 'no word from it'}; "
                    "`grader doctor` says what is missing"
                ) from None
        return self._words.popleft()

    def launch(self, openings: Sequence[tuple[Json, list[Bytes]]], ranks: Sequence[int] | None = None) -> Launch:
        """Fork one rank per opening; `ranks` names those to fork where another process plays the rest."""
        self.wait_ready()
        ranks = range(len(openings)) if ranks is None else ranks
        pipes = [Pipes() for _ in ranks]
        control, its = socket.socketpair()
        handed = [its.fileno(), *(fd for pipe in pipes for fd in pipe.handed())]
        try:
            self._line.sendmsg(
                [json.dumps(self._order(ranks, openings[0][0])).encode()],
                [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", handed))]
            )
        except OSError as gone:
            raise MachineError(f"the process that forks ranks is gone: {self._last_words() or gone}") from gone
        finally:
            its.close()
            for pipe in pipes:
                pipe.close_handed()
        return Launch(control, dict(zip(ranks, pipes, strict=True)), dict(zip(ranks, openings, strict=True)))

    def close(self) -> None:
        """End everything that came from this zygote and wait until it is gone."""
        with contextlib.suppress(MachineError):
            self.level()  # its canary's folder is gone then
        if not self._ready and not select.select([self._line], [], [], 0)[0]:
            self._process.kill()  # it still imports, and has nothing to tidy up
        self._line.close()  # its sign to tidy up
        try:
            self._process.wait(timeout=8.0)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._complaints.close()
        if self._session is not None:
            shutil.rmtree(self._session, ignore_errors=True)

    def _order(self, ranks: Sequence[int], first: Json) -> Json:
        """What the supervisor is told: whom to fork, and what of the walls is its part."""
        has_walls = first.get("walls", True) and first.get("device") != "cuda"
        return {"ranks": list(ranks), "walls": has_walls, "has_loopback": first["transport"] == "gloo"}

    def _last_words(self) -> str:
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(timeout=1.0)
        self._complaints.seek(0)
        return self._complaints.read()[-2 * KiB :].decode(errors="replace").strip()


def sweep_leftovers() -> None:
    """Remove session folders whose judge no longer lives (their names carry its PID)."""
    for folder in Path(tempfile.gettempdir()).glob("grader-*-*"):
        pid = folder.name.split("-")[1]
        if pid.isdigit() and not lives(int(pid)):
            shutil.rmtree(folder, ignore_errors=True)
